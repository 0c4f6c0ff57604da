//! What the emulator reads of datagrams that live hosts send, and what routers do to them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| warpline_live::datagram::fuzz_read(bytes));
