//! The stacks that a scenario can name, each in its file.

use std::net::IpAddr;

use warpline_core::Stream;
use warpline_scenario::endpoint::Buffers;
use warpline_scenario::{Endpoint, Size};

use super::{Stack, StackConfig, smoltcp};

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

/// Makes the stack of a host. None if the host is no stack of this build.
///
/// # Errors
/// Why it cannot be made.
pub fn build(endpoint: &Endpoint, place: Place) -> Result<Option<Box<dyn Stack>>, String> {
    // A new stack is one line here.
    Ok(Some(match endpoint {
        Endpoint::Smoltcp(keys) => Box::new(smoltcp::Smoltcp::new(place.with(keys.buffers))?),
        _ => return Ok(None),
    }))
}
