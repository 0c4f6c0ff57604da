//! Squid access logs: no text makes the reader panic, and the requests come in the order of their times.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_lab::access_log::parse;

fuzz_target!(|text: &str| {
    if let Ok(requests) = parse(text) {
        assert!(requests.is_sorted_by_key(|&(at, _)| at), "{requests:?}");
    }
});
