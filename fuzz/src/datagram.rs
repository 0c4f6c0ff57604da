//! What the emulator reads of datagrams that live hosts send, and what routers do to them.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::datagram::fuzz_read(bytes);
}
