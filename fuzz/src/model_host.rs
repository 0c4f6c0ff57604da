//! A simulated host with services, to which anybody may send anything at any time: datagrams with right checksums, so that they get far.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::wire::host::fuzz_host(bytes);
}
