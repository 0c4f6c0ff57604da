//! Frames as they come in at an interface: whatever a host sends, and whatever the kernel says about it.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::port::af_packet::fuzz_frame(bytes);
}
