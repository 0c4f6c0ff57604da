//! A simulated host with services, to which anybody may send anything at any time: datagrams with right checksums, so that they get far.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| warpline_live::wire::host::fuzz_host(bytes));
