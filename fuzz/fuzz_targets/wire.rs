//! IP, TCP, UDP and ICMP as simulated hosts read them; what parses is written and parsed again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| warpline_live::wire::codec::fuzz_parse(bytes));
