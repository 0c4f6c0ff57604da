//! The fuzz target `af_packet`: its body is in the library.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warpline_fuzz::af_packet::run(bytes));
