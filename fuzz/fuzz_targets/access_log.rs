//! The fuzz target `access_log`: its body is in the library.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warpline_fuzz::access_log::run(bytes));
