//! What treno reads of ICMP messages that come: echoes, errors and what they quote, on either family and either socket.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::measure::probe::fuzz_answer(bytes);
}
