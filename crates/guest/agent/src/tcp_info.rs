//! The kernel's information on a connection: `TCP_INFO`, by the layout of Linux 6.1 (linux/tcp.h).

use std::os::fd::RawFd;

use nix::libc;
use warpline_agent::TcpInfo;

/// `struct tcp_info` up to the last field used here; an older kernel leaves the rest zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    bytes: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
}

/// Asks the kernel; all zero for a descriptor that is not a TCP socket.
pub(crate) fn read(socket: RawFd) -> TcpInfo {
    let mut raw = Raw::default();
    let mut length = size_of::<Raw>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `raw` has, and any bytes make a `Raw`.
    unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut raw).cast(), &raw mut length);
    }
    TcpInfo {
        cwnd: raw.snd_cwnd,
        ssthresh: raw.snd_ssthresh,
        rtt: raw.rtt,
        rttvar: raw.rttvar,
        min_rtt: raw.min_rtt,
        rto: raw.rto,
        mss: raw.snd_mss,
        unacked: raw.unacked,
        retransmits: raw.total_retrans,
        acked: raw.bytes_acked,
        received: raw.bytes_received,
        segments_out: raw.segs_out,
        segments_in: raw.segs_in,
        data_out: raw.data_segs_out,
        bytes_retransmitted: raw.bytes_retrans,
        bytes_sent: raw.bytes_sent,
        window_limited: raw.rwnd_limited,
        dsacks: raw.dsack_dups,
        marked: raw.delivered_ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_layout_matches_the_kernels() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let info = read(near.as_raw_fd());
        // The kernel counts the SYN as acknowledged data.
        assert_eq!((info.acked, info.received, info.bytes_sent), (1001, 1, 1000));
        assert_eq!((info.retransmits, info.data_out), (0, 1));
        assert!(info.cwnd >= 10 && info.rtt > 0 && info.rtt < 1_000_000 && info.mss > 500, "{info:?}");
    }
}
