//! The fuzz target `netem`: its body is in the library.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warpline_fuzz::netem::run(bytes));
