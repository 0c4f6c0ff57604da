//! What treno reads of ICMP messages that come: echoes, errors and what they quote, on either family and either socket.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| warpline_live::measure::probe::fuzz_answer(bytes));
