//! Frames that arrive at an interface: any bytes from a host, and any metadata from the kernel.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::port::af_packet::fuzz_frame(bytes);
}
