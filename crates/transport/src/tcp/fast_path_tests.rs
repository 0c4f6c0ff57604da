//! The short paths for common cases against the long ones: two connections that take the short ones where they apply, and beside each a twin
//! that never does. All four see the same segments, and the same time. Twins must send the same, record the same, and wait as long.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpline_core::{Bytes, Ecn, Flags, Segment, TimeDelta, Timestamp};

use super::{Connection, EcnFeedback, Recovery, Rledbat, TcpConfig, TcpPreset};
use crate::cc::{Algorithm, Controller};
use warpline_core::parameter::Choice;

/// What happens to a segment on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Marked,
    Lost,
    /// It comes so many microseconds late.
    Late(u64),
    Twice,
}

/// What an application does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64),
    Unlimited(bool),
    AutoRead(bool),
    Read(u64),
    ReduceMss(u32),
    Close,
}

#[derive(Debug)]
struct Twins {
    fast: Connection<Controller>,
    slow: Connection<Controller>,
}

impl Twins {
    fn new(mut make: impl FnMut() -> Connection<Controller>) -> Twins {
        let (mut fast, mut slow) = (make(), make());
        // Plain acknowledgements do not look for losses, which RACK and an undo can make a difference for.
        let TcpConfig { rack, undo, .. } = *fast.config();
        slow.take_slow_paths(!(rack || undo));
        fast.set_recording(true);
        slow.set_recording(true);
        Twins { fast, slow }
    }
    fn both<T: PartialEq + std::fmt::Debug>(
        &mut self,
        mut call: impl FnMut(&mut Connection<Controller>) -> T,
    ) -> T {
        let (fast, slow) = (call(&mut self.fast), call(&mut self.slow));
        assert_eq!(fast, slow);
        fast
    }
    /// All that can be seen from outside.
    fn compare(&mut self) {
        self.both(|c| (c.poll_timeout(), *c.stats(), c.state(), c.outcome(), c.phase()));
        self.both(|c| (c.window(), c.cwnd(), c.ssthresh(), c.in_flight(), c.send_window()));
        self.both(|c| (c.srtt(), c.min_rtt(), c.rto(), c.bytes_acked(), c.bytes_delivered(), c.readable()));
        self.both(|c| c.drain_records().collect::<Vec<_>>());
    }
    fn act(&mut self, now: Timestamp, act: Act) {
        self.both(|c| match act {
            Act::Write(bytes) => c.write(bytes),
            Act::Read(bytes) => c.read(bytes),
            Act::ReduceMss(mss) => u64::from(c.reduce_mss(now, mss)),
            Act::Unlimited(on) => {
                c.set_unlimited(on);
                0
            }
            Act::AutoRead(on) => {
                c.set_auto_read(on);
                0
            }
            Act::Close => {
                c.close();
                0
            }
        });
    }
}

/// Runs two ends against each other.
fn run(config: &TcpConfig, cc: &Algorithm, fates: &[Fate], acts: &[(u64, bool, Act)]) {
    let control = || cc.build(&config.cc_config());
    let mut ends = [
        Twins::new(|| Connection::client(config.clone(), control())),
        Twins::new(|| Connection::server(config.clone(), control())),
    ];
    let mut now = Timestamp::ZERO;
    let mut wire: BTreeMap<(Timestamp, u64), (usize, Segment, Ecn)> = BTreeMap::new();
    let (mut count, mut free_at) = (0u64, [Timestamp::ZERO; 2]);
    let mut acts = acts.iter().peekable();
    ends[0].both(|c| c.open(now));
    for _ in 0..2_000 {
        for from in 0..2 {
            while let Some((segment, ecn)) = ends[from].both(|c| c.poll_transmit(now)) {
                free_at[from] =
                    free_at[from].max(now) + TimeDelta::from_micros(u64::from(segment.wire_size()));
                let at = free_at[from] + TimeDelta::from_millis(10);
                // The handshake comes through: it is not what is tested.
                let spared = segment.flags.contains(Flags::SYN) || fates.is_empty();
                let fate = if spared { Fate::Arrives } else { fates[count as usize % fates.len()] };
                let mut send = |at: Timestamp, ce: bool| {
                    count += 1;
                    let ecn = if ce && ecn != Ecn::NotEct { Ecn::Ce } else { ecn };
                    wire.insert((at, count), (1 - from, segment, ecn));
                };
                match fate {
                    Fate::Arrives => send(at, false),
                    Fate::Marked => send(at, true),
                    Fate::Late(micros) => send(at + TimeDelta::from_micros(micros), false),
                    Fate::Twice => {
                        send(at, false);
                        send(at + TimeDelta::from_micros(700), false);
                    }
                    Fate::Lost => count += 1,
                }
            }
            ends[from].compare();
        }
        let deadlines = ends.each_ref().map(|end| end.fast.poll_timeout());
        let act_at = acts.peek().map_or(Timestamp::NEVER, |act| Timestamp::from_millis(act.0));
        let arrival = wire.first_key_value().map_or(Timestamp::NEVER, |(&(at, _), _)| at);
        now = now.max(arrival.min(act_at).min(deadlines[0]).min(deadlines[1]));
        if !now.is_set() {
            break;
        }
        for end in &mut ends {
            if end.fast.poll_timeout() <= now {
                end.both(|c| c.handle_timeout(now));
            }
        }
        while let Some(&&(_, server, act)) = acts.peek().filter(|act| Timestamp::from_millis(act.0) <= now) {
            ends[usize::from(server)].act(now, act);
            acts.next();
        }
        if arrival <= now
            && let Some((_, (to, segment, ecn))) = wire.pop_first()
        {
            ends[to].both(|c| c.handle_segment(now, &segment, ecn));
        }
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => Just(Fate::Arrives),
        2 => Just(Fate::Marked),
        3 => Just(Fate::Lost),
        2 => (1u64..30_000).prop_map(Fate::Late),
        1 => Just(Fate::Twice),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1u64..200_000).prop_map(Act::Write),
        2 => any::<bool>().prop_map(Act::Unlimited),
        1 => any::<bool>().prop_map(Act::AutoRead),
        3 => (1u64..100_000).prop_map(Act::Read),
        1 => (100u32..1400).prop_map(Act::ReduceMss),
        1 => Just(Act::Close),
    ]
}

fn config() -> impl Strategy<Value = TcpConfig> {
    let preset = prop_oneof![
        4 => Just(TcpPreset::Modern),
        1 => Just(TcpPreset::Tahoe1988),
        1 => Just(TcpPreset::Reno1990),
        1 => Just(TcpPreset::Newreno1999),
        2 => Just(TcpPreset::Ns2Sack1),
    ];
    let recovery =
        prop_oneof![3 => Just(Recovery::Sack), 1 => Just(Recovery::NewReno), 1 => Just(Recovery::Reno)];
    let buffer = prop_oneof![2 => Just(32u64 << 20), 1 => 3_000u64..100_000];
    let modern = (any::<[bool; 8]>(), recovery, buffer, 1u32..4, prop::bool::weighted(0.2), any::<bool>());
    (preset, modern).prop_map(|(preset, (on, recovery, buffer, delayed, pacing, undo))| match preset {
        TcpPreset::Modern => TcpConfig {
            sack: on[0] || on[1],
            rack: on[1],
            tlp: on[2] || on[3],
            ecn: on[4],
            ecn_feedback: [EcnFeedback::Auto, EcnFeedback::Dctcp, EcnFeedback::Accecn]
                [usize::from(on[3]) + usize::from(on[7])],
            accecn_option: on[1] || on[6],
            timestamps: on[5] || on[0],
            rledbat: if on[0] && on[2] && on[4] { Rledbat::LedbatPlusPlus } else { Rledbat::No },
            prr: on[6] || on[1],
            limited_transmit: on[7] || on[2],
            recovery,
            undo,
            pacing,
            receive_buffer: Bytes(buffer),
            receive_ssthresh: on[3].then_some(Bytes(20_000)),
            receive_autotuning: on[3] && on[5],
            delayed_ack_segments: delayed,
            delayed_ack: TimeDelta::from_millis(if delayed == 3 { 0 } else { 40 }),
            ..TcpConfig::default()
        },
        old => TcpConfig { ecn: on[4], ..old.config() },
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn short_paths_do_what_long_ones_do(
        config in config(),
        cc in prop_oneof![3 => prop::sample::select(Algorithm::all()), 1 => Just(Algorithm::default())],
        fates in prop_oneof![1 => Just(vec![]), 5 => prop::collection::vec(fate(), 20..300)],
        mut acts in prop::collection::vec((0u64..1_500, any::<bool>(), act()), 0..12),
        bulk in prop::bool::weighted(0.7),
    ) {
        if bulk {
            acts.push((0, false, Act::Unlimited(true)));
        }
        acts.sort_by_key(|act| act.0);
        run(&config, &cc, &fates, &acts);
    }
}
