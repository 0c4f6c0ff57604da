//! TCP Nice in the kernel: loads it, finds it, unloads it.
//!
//! It stays as long as something refers to its link: a pin in the BPF file system (after [`load`]), or the descriptor of a process
//! that uses it ([`Hold`]). A process that finds it refers to it too, so it ends with the last of them, however that ends. Connections that use it keep it.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, libbpf_sys};
use warpline_transport::cc::{Algorithm, NiceParams};

use super::object::{self, Which};
use super::parameters::check;
use super::pin::{self, system};
use super::{Block, BpfError, Loaded, NAME};

/// A process's claim on TCP Nice.
#[derive(Debug)]
pub struct Hold {
    /// Keeps it in the kernel.
    _link: Kept,
    parameters: NiceParams,
}

impl Hold {
    /// The parameters in force when the claim was taken: whoever loaded it chose them.
    pub fn parameters(&self) -> NiceParams {
        self.parameters
    }
}

#[derive(Debug)]
enum Kept {
    Own { _link: Link },
    Found { _descriptor: OwnedFd },
}

/// Takes a claim on TCP Nice, and loads it if necessary.
///
/// # Errors
/// If the kernel does not support it, or has another version's, or has it with parameters other than the requested ones.
pub fn hold(parameters: Option<&NiceParams>) -> Result<Hold, BpfError> {
    let wanted = parameters.copied().unwrap_or_default();
    check(&wanted)?;
    if let Some(hold) = found(parameters)? {
        return Ok(hold);
    }
    match attach(&wanted) {
        Ok(link) => Ok(Hold { _link: Kept::Own { _link: link }, parameters: wanted }),
        // Another process may have loaded it first.
        Err(error) => found(parameters)?.ok_or(error),
    }
}

/// A claim on the TCP Nice that is already in the kernel, if its parameters match.
fn found(parameters: Option<&NiceParams>) -> Result<Option<Hold>, BpfError> {
    let Some(descriptor) = find_link() else { return Ok(None) };
    let (_, present) = present()?;
    if let Some(wanted) = parameters
        && Block::of(wanted) != Block::of(&present)
    {
        return Err(BpfError::Otherwise(Algorithm::Nice(present).to_string()));
    }
    Ok(Some(Hold { _link: Kept::Found { _descriptor: descriptor }, parameters: present }))
}

/// Loads the object and registers the congestion control.
fn attach(parameters: &NiceParams) -> Result<Link, BpfError> {
    let mut object = object::load(object::open(Which::Nice)?)?;
    for map in object.maps_mut() {
        if map.name() == "nice_conf" {
            map.update(&0u32.to_ne_bytes(), &Block::of(parameters).bytes(), MapFlags::ANY)
                .map_err(|error| object::failed("setting the parameters", &error))?;
        }
    }
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name() == NAME)
        .ok_or_else(|| BpfError::Kernel("the object holds no table of operations".to_owned()))?;
    map.attach_struct_ops()
        .map_err(|error| object::failed("registering the congestion control (Linux 6.4 or later)", &error))
}

/// The link of the loaded TCP Nice, if there is one.
fn find_link() -> Option<OwnedFd> {
    let tables: Vec<u32> = MapInfoIter::default().filter(|map| map.name == NAME).map(|map| map.id).collect();
    for link in LinkInfoIter::default() {
        if matches!(&link.info, LinkTypeInfo::StructOps(ops) if tables.contains(&ops.map_id)) {
            // SAFETY: no pointers are passed.
            let descriptor = unsafe { libbpf_sys::bpf_link_get_fd_by_id(link.id) };
            if descriptor >= 0 {
                // SAFETY: the descriptor was just created and has no other owner.
                return Some(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }
    None
}

/// The map with its parameters: the newest, since an unloaded one lives on with its connections.
fn parameter_map() -> Option<MapHandle> {
    let maps = MapInfoIter::default()
        .filter(|map| map.name == "nice_conf" && map.value_size as usize == Block::SIZE);
    MapHandle::from_map_id(maps.map(|map| map.id).max()?).ok()
}

/// The map with the parameters of the TCP Nice that is in the kernel, and what it says.
///
/// # Errors
/// If it has none of this version's form.
fn present() -> Result<(MapHandle, NiceParams), BpfError> {
    let read = || {
        let map = parameter_map()?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some((map, Block::from_bytes(&bytes)?.parameters()))
    };
    read().ok_or(BpfError::Foreign)
}

/// Loads TCP Nice permanently, or changes the parameters of a loaded one. Returns whether it was loaded before.
///
/// # Errors
/// If the kernel does not support it, or has another version's, or there is no BPF file system for its pin.
pub fn load(parameters: Option<&NiceParams>) -> Result<bool, BpfError> {
    let wanted = parameters.copied().unwrap_or_default();
    check(&wanted)?;
    let found = find_link();
    let before = found.is_some();
    let link = match found {
        Some(descriptor) => {
            // Another version's is neither kept nor changed.
            let (map, _) = present()?;
            if parameters.is_some() {
                map.update(&0u32.to_ne_bytes(), &Block::of(&wanted).bytes(), MapFlags::ANY)
                    .map_err(|error| object::failed("setting the parameters", &error))?;
            }
            descriptor
        }
        None => {
            let link = attach(&wanted)?;
            link.as_fd().try_clone_to_owned().map_err(|source| system("keep the link", source))?
        }
    };
    // If it cannot be pinned, one that was just loaded ends with its descriptor.
    pin::Place::open()?.keep(link.as_fd())?;
    Ok(before)
}

/// Removes the pin of [`load`]. Returns whether there was one; running commands keep their claim.
///
/// # Errors
/// If the pin cannot be removed, or is not ours.
pub fn unload() -> Result<bool, BpfError> {
    if !pin::is_mounted() {
        return Ok(false);
    }
    pin::Place::open()?.give_up()
}

/// The state of TCP Nice in the kernel; `None` if it is not loaded.
pub fn status() -> Option<Loaded> {
    find_link().map(|link| {
        let parameters = present().ok().map(|(_, parameters)| parameters);
        Loaded { parameters, stays: pin::holds(link.as_fd()) }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::MutexGuard;

    use super::super::turn;
    use super::*;

    /// Loads TCP Nice with these parameters, if this machine can have it; otherwise says what is missing.
    fn loaded(parameters: &NiceParams) -> Option<(MutexGuard<'static, ()>, Hold)> {
        let turn = turn();
        let skip = |why: &dyn std::fmt::Display| {
            let what = if crate::privilege::is_privileged() { "tcp-nice" } else { "root" };
            warpline_skip::skip(what, why);
        };
        if find_link().is_some() {
            skip(&"somebody else has it loaded");
            return None;
        }
        match hold(Some(parameters)) {
            Ok(hold) => Some((turn, hold)),
            Err(error) => {
                skip(&error);
                None
            }
        }
    }

    #[test]
    fn who_finds_it_loaded_knows_its_parameters() {
        let params = NiceParams { threshold: 0.25, ..NiceParams::default() };
        let Some((_turn, _hold)) = loaded(&params) else { return };
        assert_eq!(hold(None).unwrap().parameters(), params);
        assert!(matches!(hold(Some(&NiceParams::default())), Err(BpfError::Otherwise(_))));
    }

    #[test]
    fn another_version_s_is_not_taken_for_this_one_s() {
        let params = NiceParams::default();
        let Some((_turn, _hold)) = loaded(&params) else { return };
        let (map, _) = present().unwrap();
        // The layout comes first.
        let mut older = Block::of(&params).bytes();
        older[..4].copy_from_slice(&0u32.to_ne_bytes());
        map.update(&0u32.to_ne_bytes(), &older, MapFlags::ANY).unwrap();
        let answers = [hold(None).map(drop), load(None).map(drop), load(Some(&params)).map(drop)];
        let status = status();
        let left = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        // If it was kept after all.
        let kept = unload();
        for answer in answers {
            assert!(matches!(answer, Err(BpfError::Foreign)), "{answer:?}");
        }
        assert!(!kept.unwrap());
        assert_eq!(left, older);
        assert_eq!(status, Some(Loaded { parameters: None, stays: false }));
    }
}
