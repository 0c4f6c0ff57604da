//! A TCP connection with arbitrary segments at arbitrary times: it does not panic, its output ends, it never takes data for
//! acknowledged that was not sent, and its timers are never in the past.
//!
//! The input is a sequence of steps of eight bytes. Sequence numbers are near those that the connection sent or expects, so most
//! segments pass the first check; SACK blocks are anywhere near them.
use warpline_core::parameter::Choice;
use warpline_core::{AccEcn, Ecn, Flags, SackBlocks, Segment, SynOptions, TimeDelta, Timestamp};
use warpline_transport::cc::{Algorithm, Controller};
use warpline_transport::tcp::{Connection, EcnFeedback, Misbehaviour, Recovery, Rledbat, TcpConfig};

/// Options and role from the first two bytes.
fn connection(first: u8, second: u8) -> Connection<Controller> {
    let bit = |n: u8| first >> n & 1 == 1;
    let recovery = [Recovery::Sack, Recovery::NewReno, Recovery::Reno, Recovery::Tahoe];
    let config = TcpConfig {
        recovery: recovery[usize::from(second >> 3 & 3)],
        sack: !bit(1),
        timestamps: bit(2),
        rack: bit(3),
        tlp: bit(4),
        prr: bit(5),
        ecn: bit(6),
        undo: bit(7),
        ecn_feedback: if second >> 5 & 1 == 1 { EcnFeedback::Accecn } else { EcnFeedback::Auto },
        rledbat: if second >> 6 & 1 == 1 { Rledbat::LedbatPlusPlus } else { Rledbat::No },
        misbehaviour: match (second >> 7, first & 3) {
            (0, _) => Misbehaviour::None,
            (_, 0) => Misbehaviour::AckDivision,
            (_, 1) => Misbehaviour::DuplicateAcks,
            (_, 2) => Misbehaviour::OptimisticAcks,
            (_, _) => Misbehaviour::HiddenMarks,
        },
        ..TcpConfig::default()
    };
    let algorithm = Algorithm::all().into_iter().nth(usize::from(second & 7)).unwrap_or_default();
    let control = algorithm.build(&config.cc_config());
    if bit(0) { Connection::client(config, control) } else { Connection::server(config, control) }
}

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let [first, second, steps @ ..] = bytes else { return };
    let mut tcp = connection(*first, *second);
    let mut now = Timestamp::from_millis(1);
    // The highest sequence number that the connection sent, and the highest that it acknowledged.
    let (mut sent, mut expected) = (0u64, 0u64);
    tcp.open(now);
    for step in steps.chunks_exact(8) {
        let &[kind, wait, flags, at, ack, len, window, sack] = step else { break };
        now += TimeDelta::from_micros(u64::from(wait) * u64::from(wait) * 10);
        match kind % 8 {
            0 => {
                tcp.write(u64::from(len) * 100);
            }
            1 if kind > 200 => tcp.close(),
            2 => {
                now = now.max(tcp.poll_timeout().min(now + TimeDelta::from_secs(200)));
                tcp.handle_timeout(now);
            }
            3 => {
                tcp.read(u64::from(len));
            }
            _ => {
                let near = |middle: u64, by: u8, unit: u64| {
                    (middle + u64::from(by) * unit).saturating_sub(128 * unit)
                };
                let unit = if kind & 64 == 0 { 1460 } else { 1 };
                let ack = near(sent, ack, unit);
                let mut blocks = SackBlocks::NONE;
                for n in 0..u64::from(sack & 3) {
                    let start = ack + u64::from(sack >> 2) * 365 * (n + 1);
                    blocks.push(ack, start, start + u64::from(len) * 100);
                }
                let mut segment = Segment {
                    seq: near(expected, at, unit),
                    ack,
                    len: if kind & 128 == 0 { 0 } else { u32::from(len) * 20 },
                    window: u32::from(window) * 1000,
                    timestamps: (kind & 32 != 0).then_some((now.as_millis() as u32, u32::from(wait))),
                    sack: blocks,
                    syn: SynOptions {
                        mss: u16::from(len) * 50,
                        window_scale: Some(sack),
                        sack_permitted: true,
                    },
                    flags: Flags(u16::from(flags)),
                };
                if kind & 8 != 0 {
                    let counts = [u32::from(at), u32::from(wait), u32::from(len)];
                    segment.set_accecn(&AccEcn::new(counts, flags & 1 != 0, usize::from(sack & 3)));
                }
                tcp.handle_segment(now, &segment, if kind & 16 != 0 { Ecn::Ce } else { Ecn::NotEct });
            }
        }
        let mut out = 0;
        while let Some((segment, _)) = tcp.poll_transmit(now) {
            sent = sent.max(segment.seq + segment.seq_len());
            expected = expected.max(segment.ack);
            out += 1;
            assert!(out < 100_000, "it sends for ever");
        }
        assert!(tcp.bytes_acked() <= sent, "{} of {sent} acknowledged", tcp.bytes_acked());
        assert!(tcp.in_flight() <= 1 << 40, "in flight went below zero");
        if tcp.poll_timeout() <= now {
            tcp.handle_timeout(now);
            while let Some((segment, _)) = tcp.poll_transmit(now) {
                sent = sent.max(segment.seq + segment.seq_len());
            }
            assert!(tcp.poll_timeout() > now, "a deadline stays in the past");
        }
    }
}
