//! The fuzz target `model_host`: its body is in the library.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warpline_fuzz::model_host::run(bytes));
