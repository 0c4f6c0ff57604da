//! IP, TCP, UDP and ICMP as simulated hosts read them: what is parsed survives writing and parsing.

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::wire::codec::fuzz_parse(bytes);
}
