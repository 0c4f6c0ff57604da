//! IP, TCP, UDP and ICMP as simulated hosts read them; what parses is written and parsed again.

/// Takes what a fuzzer makes.
///
/// # Panics
/// If something is wrong: that is what a fuzzer looks for.
pub fn run(bytes: &[u8]) {
    warpline_live::wire::codec::fuzz_parse(bytes);
}
