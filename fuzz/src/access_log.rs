//! Squid access logs: no text makes the reader panic, and requests are in the order of their times.
use warpline_scenario::access_log::parse;

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(requests) = parse(text) {
        assert!(requests.is_sorted_by_key(|&(at, _)| at), "{requests:?}");
    }
}
