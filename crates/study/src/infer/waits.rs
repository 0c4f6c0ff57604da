//! How long packets have waited on their way to the capture, by the clock of their sender.
//!
//! A round trip holds the waits of both directions, and does not tell them apart. But a packet of TCP says when it was sent, by its sender's clock (the timestamps of RFC
//! 7323). Those that are least late against that clock have met an empty path; the others have waited for as long as they are later. The two clocks go apart, which must be
//! taken out (Moon, Skelly and Towsley: Estimation and Removal of Clock Skew from Network Delay Measurements, 1999).

use super::half::Half;

/// What a clock of timestamps counts, in seconds.
const TICKS: [f64; 5] = [1e-6, 1e-3, 4e-3, 1e-2, 1e-1];
/// How far what a connection shows of its clock may be from that, as a share: queues change while it lasts.
const NEAR: f64 = 0.1;
/// How much two clocks differ at the most, as a share.
const DRIFT: f64 = 1e-4;
/// Packets that pass within this time, in seconds, have waited for about as long.
const BESIDE: f64 = 0.005;
/// Times that differ by less, in seconds, are those of one packet: they were computed in two ways.
const SAME: f64 = 1e-8;

/// The waits of packets on their way to the capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// What the coarsest of the clocks counts, in seconds. A wait may seem longer by that.
    pub tick: f64,
    /// When packets passed the capture, in order, and how long they had waited, in seconds.
    pub all: Vec<(f64, f64)>,
}

impl Waits {
    /// The waits of packets from the far ends of connections, each with whether its connection has ever met an empty path. A connection that has not is compared with those that have.
    /// None if no clock is known that counts in steps of `coarsest` seconds or smaller ones.
    pub(super) fn of(far_ends: &[(&Half, bool)], coarsest: f64) -> Option<Waits> {
        let mut found = Waits::default();
        let mut others = Vec::new();
        for (half, has_met_empty) in far_ends {
            let Some((tick, waits)) = waits(&half.stamps).filter(|&(tick, _)| tick <= coarsest) else {
                continue;
            };
            found.tick = found.tick.max(tick);
            if *has_met_empty {
                found.all.extend(waits);
            } else {
                others.push(waits);
            }
        }
        found.sort();
        let others: Vec<_> = others.into_iter().filter_map(|waits| found.aligned(waits)).flatten().collect();
        found.all.extend(others);
        found.sort();
        (!found.all.is_empty()).then_some(found)
    }

    fn sort(&mut self) {
        self.all.sort_by(|one, two| one.0.total_cmp(&two.0));
    }

    /// Waits that are known but for a time that is the same for all of them, by the known ones beside them; none if there are none.
    fn aligned(&self, waits: Vec<(f64, f64)>) -> Option<Vec<(f64, f64)>> {
        let beside = waits.iter().filter_map(|&(at, wait)| {
            let (passed, known) = self.nearest(at)?;
            ((passed - at).abs() < BESIDE).then_some(known - wait)
        });
        let mut more: Vec<f64> = beside.collect();
        more.sort_by(f64::total_cmp);
        let more = more.get(more.len() / 2)?.max(0.0);
        Some(waits.into_iter().map(|(at, wait)| (at, wait + more)).collect())
    }

    /// When the packet passed that did so next to a time, and its wait.
    fn nearest(&self, at: f64) -> Option<(f64, f64)> {
        let next = self.all.partition_point(|&(passed, _)| passed < at);
        let beside = &self.all[next.saturating_sub(1)..(next + 1).min(self.all.len())];
        beside.iter().copied().min_by(|one, two| (one.0 - at).abs().total_cmp(&(two.0 - at).abs()))
    }

    /// The wait of a packet that passed next to a time, which is about that of others at that time.
    pub(super) fn near(&self, at: f64) -> f64 {
        self.nearest(at).map_or(0.0, |(_, wait)| wait)
    }

    /// The wait of the packet that passed at a time; none if that is not known.
    pub(super) fn at(&self, at: f64) -> Option<f64> {
        self.nearest(at).filter(|(passed, _)| (passed - at).abs() < SAME).map(|(_, wait)| wait)
    }
}

/// What a clock counts in seconds, and the waits of the packets with its stamps: when each passed, and for how long it had waited. None if what they say is not the time.
fn waits(stamps: &[(f64, u32)]) -> Option<(f64, Vec<(f64, f64)>)> {
    let (&(begin, first), &(end, _)) = (stamps.first()?, stamps.last()?);
    let (mut ticks, mut before) = (0_i64, first);
    let counted: Vec<(f64, f64)> = stamps
        .iter()
        .map(|&(at, stamp)| {
            // The count may begin again at 0.
            ticks += i64::from(stamp.wrapping_sub(before) as i32);
            before = stamp;
            (at, ticks as f64)
        })
        .collect();
    let shown = (end - begin) / ticks as f64;
    let tick = TICKS.into_iter().find(|tick| (shown / tick - 1.0).abs() < NEAR)?;
    let late: Vec<(f64, f64)> = counted.iter().map(|&(at, ticks)| (at, at - begin - ticks * tick)).collect();
    // The clocks of the sender and of the capture go apart. How fast shows by the packets that are least late, in each half of the time.
    let middle = f64::midpoint(begin, end);
    let least = |is_early: bool| {
        let part = late.iter().filter(|&&(at, _)| (at < middle) == is_early);
        part.min_by(|one, two| one.1.total_cmp(&two.1))
    };
    let drift = match (least(true), least(false)) {
        (Some(one), Some(two)) if two.0 > one.0 => ((two.1 - one.1) / (two.0 - one.0)).clamp(-DRIFT, DRIFT),
        _ => 0.0,
    };
    let behind = |&(at, late): &(f64, f64)| late - drift * (at - begin);
    let least = late.iter().map(behind).min_by(f64::total_cmp)?;
    let waits = late.iter().map(|packet| (packet.0, behind(packet) - least));
    // Nothing waits for longer than the connection lasts: that is a stamp of another clock.
    Some((tick, waits.filter(|&(_, wait)| wait <= end - begin).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets every 5 ms whose waits rise to 50 ms and fall again each second, with the stamps of a clock that counts `tick` and runs `drift` too fast; and those waits.
    fn stamped(tick: f64, drift: f64) -> (Vec<(f64, u32)>, Vec<f64>) {
        let packets = (0..12_000).map(|number| {
            let sent = f64::from(number) * 0.005;
            let wait = 0.1 * (0.5 - (sent.fract() - 0.5).abs());
            // It counts over 2^32.
            let stamp = u32::MAX.wrapping_add((sent * (1.0 + drift) / tick) as u32);
            ((sent + 0.02 + wait, stamp), wait)
        });
        packets.unzip()
    }

    #[test]
    fn waits_show_by_the_clock_of_the_sender() {
        for (tick, drift) in [(1e-3, 0.0), (1e-3, 5e-5), (1e-3, -5e-5), (1e-2, 0.0), (1e-6, 0.0)] {
            let (stamps, known) = stamped(tick, drift);
            let (found, waits) = waits(&stamps).unwrap();
            assert_eq!(found, tick);
            assert_eq!(waits.len(), known.len());
            for (&(at, wait), known) in waits.iter().zip(known) {
                // Two waits of zero that are late by up to a tick give the drift.
                assert!(
                    (wait - known).abs() < 2.0 * tick + 1e-4,
                    "{tick} {drift}: {wait} at {at}, not {known}"
                );
            }
        }
    }

    #[test]
    fn a_count_that_is_not_of_time_shows_no_waits() {
        assert!(waits(&[]).is_none());
        assert!(waits(&stamped(3e-3, 0.0).0).is_none());
        let same: Vec<(f64, u32)> = (0..100).map(|number| (f64::from(number), 7)).collect();
        assert!(waits(&same).is_none());
    }

    #[test]
    fn a_clock_that_is_too_coarse_is_not_used() {
        let mut half = Half::default();
        half.stamps.extend(stamped(1e-2, 0.0).0);
        assert!(Waits::of(&[(&half, true)], 1e-3).is_none());
        let waits = Waits::of(&[(&half, true)], 1e-2).unwrap();
        assert_eq!(waits.tick, 1e-2);
        // In the middle of a second, and at its end.
        assert!((waits.near(20.57) - 0.05).abs() < 0.02, "{}", waits.near(20.57));
        assert!(waits.near(21.02) < 0.02, "{}", waits.near(21.02));
        let (passed, wait) = waits.all[7];
        assert_eq!((waits.at(passed), waits.at(passed + 0.002)), (Some(wait), None));
    }

    #[test]
    fn a_connection_that_met_no_empty_path_is_compared_with_one_that_did() {
        let (stamps, known) = stamped(1e-3, 0.0);
        let [mut empty, mut busy] = [Half::default(), Half::default()];
        let long = stamps.iter().zip(&known).filter(|&(_, &wait)| wait > 0.03);
        busy.stamps.extend(long.map(|(stamp, _)| stamp));
        empty.stamps.extend(&stamps);
        assert!(Waits::of(&[(&busy, false)], 1e-3).is_none(), "there is nothing to compare with");
        let waits = Waits::of(&[(&busy, false), (&empty, true)], 1e-3).unwrap();
        assert_eq!(waits.all.len(), empty.stamps.len() + busy.stamps.len());
        let same: Vec<&[(f64, f64)]> = waits.all.windows(2).filter(|two| two[0].0 == two[1].0).collect();
        assert_eq!(same.len(), busy.stamps.len());
        for two in same {
            assert!((two[0].1 - two[1].1).abs() < 0.003, "{two:?}");
        }
    }
}
