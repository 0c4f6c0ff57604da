//! What treno reads of ICMP messages that come: echoes, errors and what they quote, on either family and either socket.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::measure::probe::fuzz_answer(bytes);
}
