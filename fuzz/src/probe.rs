//! ICMP messages as treno reads them: echoes, errors and the packets that they quote, for both address families and both kinds of socket.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::measure::probe::fuzz_answer(bytes);
}
