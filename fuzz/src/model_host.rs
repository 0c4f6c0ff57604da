//! A simulated host with services that gets arbitrary datagrams at arbitrary times, with correct checksums so that they get far.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::wire::host::fuzz_host(bytes);
}
