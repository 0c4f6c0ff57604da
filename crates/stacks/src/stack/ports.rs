//! The local port of a connection, for stacks that leave it to their caller.

use warpline_core::Stream;

/// The first of the ports that are chosen (RFC 6335 section 6), and their number.
const PORTS: (u16, u16) = (49_152, 16_384);

/// A port for which `is_free` is true: the first from a random start. None if there is none.
pub(super) fn choose(stream: &mut Stream, is_free: impl Fn(&u16) -> bool) -> Option<u16> {
    let (first, number) = PORTS;
    let start = stream.below(u64::from(number)) as u16;
    (0..number).map(|step| first + (start + step) % number).find(is_free)
}
