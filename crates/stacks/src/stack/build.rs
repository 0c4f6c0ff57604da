//! The stacks that a scenario can name, each in its file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use warpline_core::Stream;
use warpline_scenario::endpoint::Buffers;
use warpline_scenario::{Endpoint, Size};

#[cfg(target_os = "linux")]
use super::object::{Hosted, Objects};
use super::{Stack, StackConfig, quinn, smoltcp};

/// The environment variable that names the directory of built stacks.
pub const DIRECTORY: &str = "WARPLINE_STACKS";

/// What a host is besides the keys of its stack.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Largest datagram that it sends, in bytes.
    pub mtu: u32,
    /// Its random numbers.
    pub stream: Stream,
}

impl Place {
    /// The settings of a stack here, with these buffers.
    fn with(self, buffers: Buffers) -> StackConfig {
        let Place { addresses, mtu, stream } = self;
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        let (send_buffer, receive_buffer) = (bytes(buffers.send_buffer), bytes(buffers.receive_buffer));
        StackConfig { addresses, mtu, stream, send_buffer, receive_buffer }
    }
}

/// Makes the stacks of a run.
#[derive(Debug, Default)]
pub struct Builder {
    /// The directory that paths in the scenario are relative to.
    pub directory: PathBuf,
    #[cfg(target_os = "linux")]
    objects: Objects,
}

impl Builder {
    /// A builder for a scenario in this directory.
    pub fn new(directory: PathBuf) -> Self {
        Builder { directory, ..Builder::default() }
    }

    /// Makes the stack of a host. None if the host is no stack of this build.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn build(&mut self, endpoint: &Endpoint, place: Place) -> Result<Option<Box<dyn Stack>>, String> {
        #[cfg(target_os = "linux")]
        if let Some((path, buffers)) = object(endpoint, &self.directory)? {
            let known = endpoint.congestion_controls().unwrap_or_default();
            let hosted = Hosted::new(&mut self.objects, &path, place.with(buffers), known)?;
            return Ok(Some(Box::new(hosted)));
        }
        // A new stack that is a part of this program is one line here.
        Ok(Some(match endpoint {
            Endpoint::Smoltcp(keys) => Box::new(smoltcp::Smoltcp::new(place.with(keys.buffers))?),
            Endpoint::Quinn(keys) => Box::new(quinn::Quinn::new(place.with(keys.buffers), keys)?),
            _ => return Ok(None),
        }))
    }
}

/// The file of a stack in a shared object, and its buffers. None if the host is none such. Paths are relative to `directory`.
///
/// # Errors
/// Where the file was looked for, if it is not there.
#[cfg(target_os = "linux")]
fn object(endpoint: &Endpoint, directory: &Path) -> Result<Option<(PathBuf, Buffers)>, String> {
    // A new stack in a shared object is one line here.
    Ok(Some(match endpoint {
        Endpoint::Lwip(_) => (built("lwip")?, Buffers::default()),
        Endpoint::Bsd(_) => (built("bsd")?, Buffers::default()),
        Endpoint::Netstack(keys) => (built("netstack")?, keys.buffers),
        Endpoint::Sctp(keys) => (built("sctp")?, keys.buffers),
        Endpoint::Object(keys) => (directory.join(&keys.library), keys.buffers),
        _ => return Ok(None),
    }))
}

/// The shared object that is the stack of a host; none if the host has no stack, or one that is a part of this program. Paths are relative to
/// `directory`.
///
/// # Errors
/// Where it was looked for, if it is not there.
#[cfg(target_os = "linux")]
pub fn file(endpoint: &Endpoint, directory: &Path) -> Result<Option<PathBuf>, String> {
    Ok(object(endpoint, directory)?.map(|(path, _)| path))
}

/// The directories in which stacks that `make stacks` builds are looked for: that of `WARPLINE_STACKS`, then some near the program.
pub fn places() -> impl Iterator<Item = PathBuf> {
    let given = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let program = std::env::current_exe().unwrap_or_default();
    // Beside the program, as installed, and where a build of the repository has it.
    let above: Vec<PathBuf> = program.ancestors().skip(1).take(3).map(Path::to_owned).collect();
    let near = above
        .into_iter()
        .flat_map(|directory| [directory.join("stacks"), directory.join("lib/warpline/stacks")]);
    given.into_iter().chain(near)
}

/// The file of a stack that `make stacks` builds.
#[cfg(target_os = "linux")]
fn built(name: &str) -> Result<PathBuf, String> {
    let file = format!("{name}.so");
    let mut files = places().map(|directory| directory.join(&file));
    files.find(|path| Path::exists(path)).ok_or_else(|| {
        format!("{file} is not there: build it with `make stacks`, or name its directory in {DIRECTORY}")
    })
}
