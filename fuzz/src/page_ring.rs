//! The page that a guest shares with us: a hostile guest writes what it likes, where it likes, between any two of our steps.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_guest::fuzz_ring(bytes);
}
