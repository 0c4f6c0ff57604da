//! Datagrams from live hosts, as the emulator reads them, and what routers do with them.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::router::fuzz_read(bytes);
}
