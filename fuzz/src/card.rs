//! What a guest's kernel gives to its network card, and what arrives there: any virtio header, and any bytes behind it.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_guest::fuzz_card(bytes);
}
