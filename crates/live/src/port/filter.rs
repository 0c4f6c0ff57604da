//! A filter in the kernel for a port that is one station of a segment: it lets through what is for that station or for several.
//!
//! The port's own MAC address is another than the card's, so the card has to receive everything (promiscuous mode). What is for other stations should not
//! fill the ring.

use std::io;
use std::os::fd::BorrowedFd;

use nix::libc::{self, sock_filter};

use super::link::Mac;
use super::link::set_option;

/// Lets all of a frame through.
const ALL: u32 = 0x4_0000;

/// The program, of the classic Berkeley Packet Filter (Linux Documentation/networking/filter.rst).
fn program(mac: Mac) -> [sock_filter; 8] {
    let [a, b, c, d, e, f] = mac;
    let step = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    let load = |size: u32, at: u32| step(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let jump =
        |test: u32, value: u32, jt: u8, jf: u8| step(libc::BPF_JMP | test | libc::BPF_K, jt, jf, value);
    [
        load(libc::BPF_W, 2),
        jump(libc::BPF_JEQ, u32::from_be_bytes([c, d, e, f]), 0, 2),
        load(libc::BPF_H, 0),
        jump(libc::BPF_JEQ, u32::from(u16::from_be_bytes([a, b])), 2, 0),
        load(libc::BPF_B, 0),
        // The bit of groups of stations.
        jump(libc::BPF_JSET, 1, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, ALL),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

/// Lets a packet socket receive only what is for the station `mac` or for several.
///
/// # Errors
/// If the kernel refuses it.
pub(super) fn attach(socket: BorrowedFd<'_>, mac: Mac) -> io::Result<()> {
    let mut program = program(mac);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program returns for a frame, by a machine that knows these instructions only.
    fn judge(program: &[sock_filter], frame: &[u8]) -> u32 {
        let (mut a, mut at) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let load = |len: usize| {
                frame[step.k as usize..][..len].iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
            };
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => a = load(4),
                code if code == libc::BPF_LD | libc::BPF_H | libc::BPF_ABS => a = load(2),
                code if code == libc::BPF_LD | libc::BPF_B | libc::BPF_ABS => a = load(1),
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(a == step.k),
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => at += jump(a & step.k != 0),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn what_is_for_another_station_stays_outside() {
        let own = [2, 7, 1, 2, 3, 4];
        let program = program(own);
        for (mac, passes) in [
            (own, true),
            ([0xff; 6], true),
            ([0x33, 0x33, 0xff, 1, 2, 3], true),
            ([2, 7, 1, 2, 3, 5], false),
            ([2, 8, 1, 2, 3, 4], false),
            ([0x52, 0x54, 0, 1, 2, 3], false),
        ] {
            assert_eq!(judge(&program, &mac) > 0, passes, "{mac:?}");
        }
    }
}
