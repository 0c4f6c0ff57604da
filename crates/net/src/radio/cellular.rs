//! The downlink of a cell (LTE): in each millisecond the scheduler gives one user a transport block, as large as that user's channel allows.
//!
//! - Blocks: 3GPP TS 36.213, tables 7.2.3-1 (CQI and its efficiency), 7.1.7.1-1 and 7.1.7.2.1-1 (sizes), for one layer, as ns-3 has them (src/lte/model/lte-amc.cc), whose
//!   way from a CQI to a modulation and coding scheme is taken, too: the fastest whose efficiency is not above that of the CQI.
//! - Channel: a Markov chain over the CQIs for Rayleigh fading (H. S. Wang, N. Moayeri, "Finite-State Markov Channel", IEEE Trans. Veh. Tech. 44, 1995): a state is a range of
//!   signal-to-noise ratios, and it changes to a neighbour as often as the fading crosses the border between them, N(x) = sqrt(2 pi x) f exp(-x) times a second at x times the
//!   mean ratio and a Doppler frequency f. The ratio that a CQI needs is that of ns-3 (G. Piro et al., European Wireless 2010): efficiency = log2(1 + ratio / 5.53) at a bit
//!   error rate of 5e-5.
//! - Scheduler: proportionally fair. The user is chosen whose block is largest in proportion to the mean rate that it has had, over about `memory` blocks. The other users have
//!   channels of the same kind and always something to receive.
//! - HARQ: a block that is not decoded is sent again eight milliseconds later, up to three times, with the same chance. What comes behind it waits, as packets are passed on in
//!   order.
//!
//! Departures: no measured chain of CQIs could be read, so the channel is this textbook one. A whole block goes to one user. The report of the channel is not late. A block that is not
//! decoded four times is passed on all the same, where RLC would ask for it once more. Blocks are handed out in the grain of a mahimahi trace ([`crate::mahimahi`]), 1500 bytes.
//! Draws repeat after a minute.

use std::collections::VecDeque;
use std::sync::Arc;

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, float};

use super::{Drawn, Radio};
use crate::link::RateConfig;
use crate::mahimahi::{OPPORTUNITY, Trace};

/// How much is drawn, in milliseconds.
const DRAWN: u64 = 60_000;
/// Milliseconds from a transmission to the next one of the same block.
const ROUND_TRIP: u64 = 8;
/// Transmissions of a block, at most.
const TRIES: u32 = 4;
/// Efficiencies of CQI 1 to 15 in bits per symbol (table 7.2.3-1).
const EFFICIENCIES: [f64; 15] = [
    0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234,
    5.1152, 5.5547,
];
/// By how much the ratio must be better than Shannon's: -ln(5 * 5e-5) / 1.5.
const GAP: f64 = 5.529_4;
/// Bits of a block (table 7.1.7.2.1-1), by resource blocks and CQI 1 to 15.
const BLOCKS: [(u32, [u32; 15]); 6] = [
    (6, [152, 256, 408, 600, 808, 936, 1192, 1544, 1800, 1928, 2344, 2792, 3240, 3624, 4392]),
    (15, [392, 648, 1064, 1544, 2088, 2344, 2984, 3880, 4584, 4968, 5992, 6968, 7992, 9144, 11_064]),
    (25, [680, 1096, 1800, 2600, 3496, 4008, 4968, 6456, 7736, 7992, 9912, 11_448, 13_536, 15_264, 18_336]),
    (
        50,
        [
            1384, 2216, 3624, 5160, 6968, 7992, 9912, 12_960, 15_264, 16_416, 19_848, 22_920, 27_376, 30_576,
            36_696,
        ],
    ),
    (
        75,
        [
            2088, 3368, 5352, 7736, 10_680, 11_832, 15_264, 19_080, 22_920, 24_496, 29_296, 35_160, 40_576,
            45_352, 55_056,
        ],
    ),
    (
        100,
        [
            2792, 4584, 7224, 10_296, 14_112, 15_840, 19_848, 25_456, 30_576, 32_856, 39_232, 46_888, 55_056,
            61_664, 75_376,
        ],
    ),
];

/// The downlink of a cell (LTE) that several users share: transport blocks by the quality of a fading channel, a proportionally fair scheduler, and HARQ.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("cellular")]
pub struct Cellular {
    /// Resource blocks of the carrier: 6, 15, 25, 50, 75 or 100, for 1.4, 3, 5, 10, 15 and 20 MHz. Another number counts as the next one below.
    #[parameter(default = 50, min = 6, max = 100)]
    pub blocks: u32,
    /// Mean signal-to-noise ratio, in dB.
    #[parameter(default = 15.0, min = -10.0, max = 40.0, unit = "dB")]
    pub snr: f64,
    /// Doppler frequency in Hz: how fast the channel changes. 5.6 is that of walking (3 km/h) at 2 GHz; the model is for slow fading.
    #[parameter(default = 5.6, above = 0.0, max = 100.0, unit = "Hz")]
    pub doppler: f64,
    /// Users of the cell with something to receive, this one included.
    #[parameter(default = 1, min = 1, max = 100)]
    pub users: u32,
    /// Over how many milliseconds the scheduler averages what a user has had.
    #[parameter(default = 100, min = 1)]
    pub memory: u32,
    /// Part of the transmissions of blocks that are not decoded. A CQI is reported such that it is a tenth at most.
    #[parameter(default = 0.1, share)]
    pub block_error: f64,
}

/// The channel of one user: a CQI, and by which chances it changes in a millisecond.
#[derive(Debug)]
struct Channel {
    /// For each CQI from 0 on: its share of the time, and the chances of the next lower and the next higher one.
    states: Vec<(f64, f64, f64)>,
}

impl Channel {
    fn new(snr: f64, doppler: f64) -> Self {
        let mean = float::powf(10.0, snr / 10.0);
        // Where each CQI begins, in proportion to the mean.
        let least: Vec<f64> = std::iter::once(0.0)
            .chain(EFFICIENCIES.map(|efficiency| GAP * (float::powf(2.0, efficiency) - 1.0) / mean))
            .chain([f64::INFINITY])
            .collect();
        // By `float` an infinite ratio need not be defined.
        let beyond = |x: f64| if x.is_finite() { float::exp(-x) } else { 0.0 };
        let crossings = |x: f64| {
            if x.is_finite() { (std::f64::consts::TAU * x).sqrt() * doppler * beyond(x) / 1e3 } else { 0.0 }
        };
        let state = |ends: &[f64]| {
            let share = beyond(ends[0]) - beyond(ends[1]);
            if share <= 0.0 {
                // Where it hardly ever is, it does not stay.
                return (0.0, 1.0, 0.0);
            }
            let (down, up) = (crossings(ends[0]) / share, crossings(ends[1]) / share);
            let sum = (down + up).max(1.0);
            (share, down / sum, up / sum)
        };
        Channel { states: least.windows(2).map(state).collect() }
    }

    /// The CQI of a user who has just come.
    fn first(&self, stream: &mut Stream) -> usize {
        let mut left = stream.uniform();
        let place = self.states.iter().position(|&(share, ..)| {
            left -= share;
            left < 0.0
        });
        place.unwrap_or(self.states.len() - 1)
    }

    /// The CQI a millisecond later.
    fn next(&self, cqi: usize, stream: &mut Stream) -> usize {
        let (_, down, up) = self.states[cqi];
        match stream.uniform() {
            number if number < down => cqi.saturating_sub(1),
            number if number < down + up => (cqi + 1).min(self.states.len() - 1),
            _ => cqi,
        }
    }
}

impl Cellular {
    /// Bits of a block at a CQI.
    fn bits(&self, cqi: usize) -> u32 {
        let fitting = BLOCKS.iter().rev().find(|(blocks, _)| *blocks <= self.blocks).unwrap_or(&BLOCKS[0]);
        cqi.checked_sub(1).map_or(0, |place| fitting.1[place])
    }

    /// Bits that this user gets at the end of each millisecond.
    fn received(&self, millis: u64, stream: &mut Stream) -> Vec<u64> {
        let channel = Channel::new(self.snr, self.doppler);
        let mut cqis: Vec<usize> = (0..self.users.max(1)).map(|_| channel.first(stream)).collect();
        let mut means = vec![1.0; cqis.len()];
        let forget = 1.0 / f64::from(self.memory.max(1));
        let mut received = vec![0; millis as usize];
        // Blocks that are not passed on yet, in the order in which they were first sent: how large, and whether they are decoded. And the number of the first.
        let (mut waiting, mut first) = (VecDeque::<(u32, bool)>::new(), 0);
        // Blocks on their way again: when, which, how often they have been sent.
        let mut again: Vec<(u64, usize, u32)> = Vec::new();
        for now in 0..millis {
            for cqi in &mut cqis {
                *cqi = channel.next(*cqi, stream);
            }
            let due = again.iter().position(|&(at, ..)| at == now).map(|place| again.remove(place));
            let mut served = None;
            let block = due.map(|(_, number, sent)| (number, sent)).or_else(|| {
                let worth = |user: usize| f64::from(self.bits(cqis[user])) / means[user];
                // The first of those that are worth the same.
                let best =
                    (0..cqis.len()).fold(0, |best, user| if worth(user) > worth(best) { user } else { best });
                served = Some(best);
                (best == 0 && cqis[0] > 0).then(|| {
                    waiting.push_back((self.bits(cqis[0]), false));
                    (first + waiting.len() - 1, 0)
                })
            });
            for (user, mean) in means.iter_mut().enumerate() {
                let had = if served == Some(user) { f64::from(self.bits(cqis[user])) } else { 0.0 };
                *mean = (*mean * (1.0 - forget) + had * forget).max(1.0);
            }
            let Some((number, sent)) = block else { continue };
            if sent + 1 < TRIES && stream.chance(self.block_error) {
                again.push((now + ROUND_TRIP, number, sent + 1));
            } else if let Some((_, decoded)) = waiting.get_mut(number - first) {
                *decoded = true;
            }
            while let Some((bits, _)) = waiting.pop_front_if(|(_, decoded)| *decoded) {
                received[now as usize] += u64::from(bits);
                first += 1;
            }
        }
        received
    }
}

impl Radio for Cellular {
    fn draw(&self, span: TimeDelta, mut stream: Stream) -> Drawn {
        let millis = span.as_nanos().div_ceil(1_000_000).clamp(1000, DRAWN);
        let (mut runs, mut bytes, mut handed) = (Vec::new(), 0, 0);
        for (at, bits) in (1..).zip(self.received(millis, &mut stream)) {
            bytes += bits / 8;
            let count = bytes / u64::from(OPPORTUNITY) - handed;
            if count > 0 {
                runs.push((at, count as u32));
                handed += count;
            }
        }
        // A user out of reach.
        let rate = match Trace::of_runs(runs, millis as u32) {
            Some(trace) => RateConfig::Trace(Arc::new(trace)),
            None => RateConfig::Constant(warpline_core::Rate::from_bps(0)),
        };
        Drawn { rate, delay: TimeDelta::ZERO, detour: None }
    }

    fn words(&self) -> String {
        format!("a cell of {} resource blocks with {} users", self.blocks, self.users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    fn stream() -> Stream {
        Streams::new(9).stream("link.a>b.radio")
    }
    /// Bits per millisecond in the mean.
    fn mean(cell: Cellular) -> f64 {
        let received = cell.received(400_000, &mut stream());
        received.iter().sum::<u64>() as f64 / received.len() as f64
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn each_quality_has_its_share_of_the_time() {
        let channel = Channel::new(10.0, 20.0);
        let total: f64 = channel.states.iter().map(|(share, ..)| share).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let (mut stream, n) = (stream(), 2_000_000);
        let mut cqi = channel.first(&mut stream);
        let mut found = [0u32; 16];
        for _ in 0..n {
            cqi = channel.next(cqi, &mut stream);
            found[cqi] += 1;
        }
        for (found, (share, ..)) in found.iter().zip(&channel.states) {
            assert!((f64::from(*found) / f64::from(n) - share).abs() < 0.01, "{found} {share}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_user_alone_gets_the_mean_of_its_blocks_and_less_by_what_is_sent_again() {
        let alone = Cellular { doppler: 30.0, block_error: 0.0, ..Cellular::default() };
        let channel = Channel::new(alone.snr, alone.doppler);
        let expected: f64 = (0..16).map(|cqi| channel.states[cqi].0 * f64::from(alone.bits(cqi))).sum();
        let found = mean(alone);
        assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
        // A block takes 1 + e + e^2 + e^3 transmissions.
        let again = mean(Cellular { block_error: 0.2, ..alone });
        assert!((again / expected * 1.248 - 1.0).abs() < 0.03, "{again} {expected}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn users_share_and_gain_by_being_served_when_their_channel_is_good() {
        let cell = |users| Cellular { users, doppler: 30.0, block_error: 0.0, ..Cellular::default() };
        let (alone, of_four) = (mean(cell(1)), mean(cell(4)));
        assert!(of_four > 1.1 * alone / 4.0 && of_four < 0.6 * alone, "{of_four} {alone}");
    }

    #[test]
    fn what_comes_behind_a_block_that_is_sent_again_waits() {
        let steady = Cellular { snr: 40.0, doppler: 1e-6, ..Cellular::default() };
        let plain = Cellular { block_error: 0.0, ..steady }.received(1000, &mut stream());
        assert!(plain.iter().all(|&bits| bits == 36_696));
        let held = Cellular { block_error: 0.01, ..steady }.received(1000, &mut stream());
        let first = held.iter().position(|&bits| bits == 0).unwrap();
        // Eight milliseconds nothing, then the block and the seven behind it at once.
        assert!(held[first..first + 8].iter().all(|&bits| bits == 0));
        assert_eq!(held[first + 8], 8 * 36_696);
    }

    #[test]
    fn blocks_are_passed_on_in_order_however_often_one_is_sent_again() {
        let steady = Cellular { snr: 40.0, doppler: 1e-6, block_error: 0.5, ..Cellular::default() };
        let received = steady.received(100_000, &mut stream());
        // A block that is sent four times holds up what comes behind it for 24 ms.
        let gap = received.split(|&bits| bits > 0).map(<[u64]>::len).max();
        assert!(gap >= Some(24), "{gap:?}");
        // In a millisecond at most one block is sent, and nothing is passed on twice.
        let mut most = 0;
        for (millis, bits) in (1..).zip(&received) {
            most += bits;
            assert!(most <= millis * 36_696);
        }
        assert!(most > 36_696 * 100_000 / 2);
    }

    #[test]
    fn a_draw_is_a_trace_and_a_user_out_of_reach_gets_nothing() {
        let drawn = Cellular::default().draw(TimeDelta::from_secs(10), stream());
        let RateConfig::Trace(trace) = drawn.rate else { panic!("{drawn:?}") };
        // The end counts, too, if nothing is received there.
        assert_eq!(trace.period_ms(), 10_000);
        assert!((10e6..36e6).contains(&(trace.mean_rate().as_bps() as f64)), "{}", trace.mean_rate());
        let lost = Cellular { snr: -10.0, blocks: 6, doppler: 1e-9, ..Cellular::default() };
        let rate = lost.draw(TimeDelta::from_secs(1), stream()).rate;
        assert!(matches!(rate, RateConfig::Constant(none) if none.as_bps() == 0), "{rate:?}");
    }
}
