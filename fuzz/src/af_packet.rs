//! Frames as they come in at an interface: whatever a host sends, and whatever the kernel says about it.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::port::af_packet::fuzz_frame(bytes);
}
