//! Cap's two ends, and the tests from one side, with arbitrary datagrams at arbitrary times. There is no panic, no session without a cookie, never more bytes
//! to an unproven address than came from it, no endless output, and no deadline that stays in the past.
//!
//! The input is a sequence of steps: a kind, a wait, a length, and that many bytes. Some steps deliver real datagrams of the other end,
//! intact or damaged, so that the fuzzer gets into sessions.
use std::net::SocketAddr;

use warpline_capacity::{
    CapClient, CapOptions, CapServer, Direction, Identity, ProbeReply, Prober, SenderOnly, ServerLimits,
    Treno, TrenoOptions, fuzz_read,
};
use warpline_core::{TimeDelta, Timestamp};

fn identity(keyed: bool) -> Identity {
    Identity {
        nonce: [1; 16],
        key: keyed.then(|| b"key".to_vec()),
        wall_us: 0,
        phase: TimeDelta::ZERO,
        ipv6: false,
        patience: TimeDelta::from_secs(5),
        trace: true,
    }
}

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    fuzz_read(bytes);
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let keyed = first & 1 == 1;
    let direction = if first & 2 == 2 { Direction::Reverse } else { Direction::Forward };
    let base = if first & 4 == 4 { CapOptions::classic() } else { CapOptions::default() };
    let options = CapOptions { direction, duration: TimeDelta::from_secs(1), ..base };
    let limits = ServerLimits {
        clients: 2,
        key: keyed.then(|| b"key".to_vec()),
        patience: TimeDelta::from_secs(5),
        ..ServerLimits::default()
    };
    let mut alone = SenderOnly::new(options.clone(), TimeDelta::ZERO, false, TimeDelta::from_secs(5), keyed);
    let mut client = CapClient::new(options, identity(keyed));
    let mut server = CapServer::new(limits, &[2; 32], 7);
    let mut treno =
        Treno::new(TrenoOptions { delayed_ack: Some(TimeDelta::from_millis(10)), ..TrenoOptions::default() });
    let mut probers: [&mut dyn Prober; 2] = [&mut treno, &mut alone];
    let own = SocketAddr::from(([192, 0, 2, 1], 1000));
    let other = SocketAddr::from(([192, 0, 2, 9], 1000));
    let mut now = Timestamp::from_millis(1);
    let (mut to_server, mut to_client): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    // Bytes from the address that never returned a cookie, and bytes to it.
    let (mut in_other, mut out_other) = (0, 0);
    while let [kind, wait, len, behind @ ..] = rest {
        let (raw, next) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = next;
        now += TimeDelta::from_micros(u64::from(*wait) * u64::from(*wait) * 20);
        let damaged = |mut datagram: Vec<u8>| {
            for pair in raw.chunks_exact(2) {
                let at = usize::from(pair[0]) % datagram.len().max(1);
                if let Some(byte) = datagram.get_mut(at) {
                    *byte ^= pair[1];
                }
            }
            datagram
        };
        match kind % 10 {
            0 => server.handle_datagram(now, now, own, raw, false),
            1 => {
                in_other += raw.len();
                server.handle_datagram(now, now, other, raw, true);
            }
            2 => client.handle_datagram(now, now, raw, true),
            3 => to_server.drain(..).for_each(|d| server.handle_datagram(now, now, own, &d, false)),
            4 => to_client.drain(..).for_each(|d| client.handle_datagram(now, now, &d, false)),
            5 => to_server.drain(..).for_each(|d| server.handle_datagram(now, now, own, &damaged(d), false)),
            6 => to_client.drain(..).for_each(|d| client.handle_datagram(now, now, &damaged(d), false)),
            7 => raw.iter().for_each(|&n| {
                for prober in &mut probers {
                    prober.on_reply(now, u64::from(n), ProbeReply::Echo);
                }
            }),
            8 => probers.iter_mut().for_each(|prober| prober.on_too_big(now, u32::from(*wait) * 8)),
            _ if raw.len() > 200 => client.stop(now),
            _ => {
                now = now
                    .max(client.poll_timeout().min(server.poll_timeout()).min(now + TimeDelta::from_secs(3)));
            }
        }
        let mut out = Vec::new();
        let mut count = 0;
        while let Some(datagram) = client.poll_transmit(now, &mut out) {
            assert_eq!(datagram.len, out.len());
            to_server.push(std::mem::take(&mut out));
            count += 1;
            assert!(count < 100_000, "the client sends for ever");
        }
        while let Some((to, datagram)) = server.poll_transmit(now, &mut out) {
            assert_eq!(datagram.len, out.len());
            if to.address == other {
                out_other += out.len();
            } else {
                to_client.push(out.clone());
            }
            out.clear();
            count += 1;
            assert!(count < 200_000, "the server sends for ever");
        }
        assert!(out_other <= in_other, "{out_other} bytes for {in_other}");
        assert!(server.sessions() <= 2);
        for prober in &mut probers {
            for _ in 0..3 {
                while prober.poll_transmit(now).is_some() {}
                prober.handle_timeout(now);
            }
            while prober.poll_transmit(now).is_some() {}
            assert!(prober.poll_timeout() > now, "a deadline of a test from one side stays in the past");
        }
        for _ in 0..3 {
            client.handle_timeout(now);
            server.handle_timeout(now);
            while client.poll_transmit(now, &mut out).is_some() {}
            while server.poll_transmit(now, &mut out).is_some() {}
            out.clear();
        }
        assert!(client.poll_timeout() > now, "a deadline of the client stays in the past");
        assert!(server.poll_timeout() > now, "a deadline of the server stays in the past");
        to_server.truncate(100);
        to_client.truncate(100);
        client.drain_trace().for_each(drop);
    }
}
