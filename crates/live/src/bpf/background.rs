//! The programs of a cgroup: they give its sockets a congestion control, and limit what the sockets receive.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object};
use warpline_transport::cc::NiceParams;

use super::object::{self, Which};
use super::{Block, BpfError, Counts};

/// What the sockets of a cgroup should do.
#[derive(Clone, Copy, Debug)]
pub struct Governing<'a> {
    /// The congestion control for sending; `None` leaves it alone.
    pub sending: Option<&'a str>,
    /// Parameters that limit receiving; `None` leaves it alone.
    pub receiving: Option<NiceParams>,
}

/// The programs, attached as long as this value lives.
#[derive(Debug)]
pub struct Background {
    object: Object,
    _links: Vec<Link>,
}

/// Where the name of the congestion control begins in `struct background_choice`, and where the two flags after it begin.
const CHOICE_NAME: usize = Block::SIZE;
const CHOICE_FLAGS: usize = CHOICE_NAME + 16;

/// `struct background_choice` in `native/bpf/nice.h`.
fn choice(governing: &Governing<'_>) -> [u8; CHOICE_FLAGS + 8] {
    let mut bytes = [0; CHOICE_FLAGS + 8];
    bytes[..CHOICE_NAME].copy_from_slice(&Block::of(&governing.receiving.unwrap_or_default()).bytes());
    let name = governing.sending.unwrap_or_default().as_bytes();
    // The last of the sixteen bytes stays zero.
    let length = name.len().min(15);
    bytes[CHOICE_NAME..CHOICE_NAME + length].copy_from_slice(&name[..length]);
    bytes[CHOICE_FLAGS] = u8::from(governing.sending.is_some());
    bytes[CHOICE_FLAGS + 1] = u8::from(governing.receiving.is_some());
    bytes
}

impl Background {
    /// Attaches the programs to a cgroup.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn attach(cgroup: BorrowedFd<'_>, governing: &Governing<'_>) -> Result<Self, BpfError> {
        let mut open = object::open(Which::Background)?;
        let wanted = choice(governing);
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.choice"
                && let Some(value) = map.initial_value_mut()
            {
                if value.len() != wanted.len() {
                    return Err(BpfError::Kernel("the object's constants are not as expected".to_owned()));
                }
                value.copy_from_slice(&wanted);
            }
        }
        let object = object::load(open)?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let link = program
                .attach_cgroup(cgroup.as_raw_fd())
                .map_err(|error| object::failed("attaching to the cgroup", &error))?;
            links.push(link);
        }
        Ok(Background { object, _links: links })
    }

    /// The number of the map with the receivers' states, for [`super::sockets::Sockets::open`].
    pub fn receivers(&self) -> Option<u32> {
        let map = self.object.maps().find(|map| map.name() == "nice_receive")?;
        Some(map.info().ok()?.info.id)
    }

    /// What the programs have counted so far.
    pub fn counts(&self) -> Counts {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let bytes = map.and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        let bytes = bytes.unwrap_or_default();
        let word = |index: usize| {
            let word = bytes.get(8 * index..8 * index + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        Counts { switched: word(0), refused: word(1), received: word(2), unstamped: word(3) }
    }
}
