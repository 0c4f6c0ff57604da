//! The fuzz target `page_ring`: its body is in the library.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warpline_fuzz::page_ring::run(bytes));
