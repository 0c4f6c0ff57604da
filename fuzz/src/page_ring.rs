//! The page that a guest shares with us: a hostile guest writes anything anywhere, between any two of our steps.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_guest::fuzz_ring(bytes);
}
