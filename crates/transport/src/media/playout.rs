//! What the receiver of a stream does with its frames: puts them together, waits, shows them, and counts.
//!
//! A frame is complete when all of its packets are there. Frames are shown in their order, as soon as they are complete, and not before the
//! playout delay is over. One that stays incomplete for the receiver's patience after a later frame has begun to arrive is given up. The frames
//! after it depend on it, so nothing is shown until there is a key frame, for which the receiver asks; a complete key frame is shown at once.
//!
//! A freeze is what W3C's "Identifiers for WebRTC's Statistics API" (freezeCount) says: the time between two frames shown is at least three times
//! the mean of the last 30, and at least 150 ms longer than that mean. Here a freeze counts from the moment at which it is one, not when the next
//! frame is shown, so that one that does not end is counted, too.
//!
//! Quality is the utility of BOLA (Spiteri, Urgaonkar and Sitaraman, INFOCOM 2016), the logarithm of the rate over the lowest rate, divided by that
//! of the highest rate: 0 at the lowest rate of the encoder, 1 at the highest, averaged over time. Time in freezes has quality 0. It says how
//! good a picture the rate allows, as people feel equal ratios of rates as equal steps; it is no prediction of a mean opinion score.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use warpline_core::{TimeDelta, Timestamp, counters, float};

use super::{MediaPacket, MediaParams};

/// Frames shown of whose durations the mean is taken.
const RECENT: usize = 30;
/// What a freeze lasts longer than the mean, at least.
const FREEZE: TimeDelta = TimeDelta::from_millis(150);
/// How often a freeze is counted on while it lasts.
const TICK: TimeDelta = TimeDelta::from_millis(100);

counters! {
    /// What a receiver has shown.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct Watched {
        counts {
            /// Frames shown.
            pub shown: u64,
            /// Those of them that were shown late.
            pub late: u64,
            /// Frames given up, and frames that depend on those.
            pub lost: u64,
            /// Freezes.
            pub freezes: u64,
            /// Time in freezes.
            pub frozen: TimeDelta,
            /// Time from the first frame shown to the last, or to the last moment of a freeze.
            pub watched: TimeDelta,
            /// The same time, each moment of it multiplied by the quality of what was seen.
            pub quality: TimeDelta,
        }
        state {}
    }
}

/// A frame of which packets have arrived.
#[derive(Clone, Debug)]
struct Frame {
    count: u16,
    got: u16,
    /// Which packets are there, a bit each.
    places: Vec<u64>,
    captured: Timestamp,
    key: bool,
    kbps: u32,
    /// When the first packet arrived.
    first: Timestamp,
}

impl Frame {
    fn new(now: Timestamp, packet: &MediaPacket) -> Self {
        Frame {
            count: packet.count.max(1),
            got: 0,
            places: vec![0; usize::from(packet.count.max(1)).div_ceil(64)],
            captured: packet.captured,
            key: packet.key,
            kbps: packet.kbps,
            first: now,
        }
    }
    /// Notes a packet. Returns whether it was not there yet.
    fn add(&mut self, index: u16) -> bool {
        let bit = 1u64 << (index % 64);
        match self.places.get_mut(usize::from(index / 64)) {
            Some(word) if index < self.count && *word & bit == 0 => {
                *word |= bit;
                self.got += 1;
                true
            }
            _ => false,
        }
    }
    fn is_complete(&self) -> bool {
        self.got == self.count
    }
}

/// The frame on the screen.
#[derive(Clone, Copy, Debug)]
struct Picture {
    since: Timestamp,
    quality: f64,
    /// If it is frozen: until when that has been counted.
    frozen: Option<Timestamp>,
}

/// The frames of a stream at its receiver.
#[derive(Clone, Debug)]
pub(super) struct Playout {
    delay: TimeDelta,
    patience: TimeDelta,
    late: TimeDelta,
    /// Lowest and highest rate of the encoder in kbit/s.
    range: (f64, f64),
    frames: BTreeMap<u32, Frame>,
    /// The frame to be shown next.
    next: u32,
    /// Whether a frame was given up, so that only a key frame can be shown.
    broken: bool,
    picture: Option<Picture>,
    /// How long the last frames were on the screen, and from which duration on a picture is frozen, if there were any.
    durations: VecDeque<TimeDelta>,
    freeze_after: Option<TimeDelta>,
    /// Delays of frames shown of which nobody has asked.
    shown: VecDeque<TimeDelta>,
    totals: Watched,
    /// When there is something to do next.
    wake: Timestamp,
    stopped: bool,
}

impl Playout {
    pub(super) fn new(params: &MediaParams) -> Self {
        let kbps = |rate: warpline_core::Rate| rate.as_bps() as f64 / 1000.0;
        Playout {
            delay: params.playout_delay,
            patience: params.patience,
            late: params.late,
            range: (kbps(params.min_bitrate), kbps(params.max_bitrate)),
            frames: BTreeMap::new(),
            next: 0,
            broken: false,
            picture: None,
            durations: VecDeque::new(),
            freeze_after: None,
            shown: VecDeque::new(),
            totals: Watched::default(),
            wake: Timestamp::NEVER,
            stopped: false,
        }
    }

    /// Takes a packet. Returns whether it brought something that was still needed.
    pub(super) fn insert(&mut self, now: Timestamp, packet: &MediaPacket) -> bool {
        if packet.frame < self.next {
            return false;
        }
        let frame = self.frames.entry(packet.frame).or_insert_with(|| Frame::new(now, packet));
        let new = frame.add(packet.index);
        self.advance(now);
        new
    }

    /// Whether a key frame is needed.
    pub(super) fn wants_key_frame(&self) -> bool {
        self.broken
    }
    pub(super) fn totals(&self) -> &Watched {
        &self.totals
    }
    pub(super) fn poll_shown(&mut self) -> Option<TimeDelta> {
        self.shown.pop_front()
    }
    pub(super) fn poll_timeout(&self) -> Timestamp {
        self.wake
    }
    /// No frames are captured any more: a picture that stays is no freeze.
    pub(super) fn stop(&mut self, now: Timestamp) {
        self.count_freeze(now);
        self.stopped = true;
        self.advance(now);
    }

    /// Shows what can be shown, and gives up what has been missing for too long.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.count_freeze(now);
        let wait = self.show(now);
        self.wake = wait.min(self.freeze_wake());
    }

    /// Shows frames. Returns when there is more to do.
    fn show(&mut self, now: Timestamp) -> Timestamp {
        loop {
            let ready = self.frames.get(&self.next).is_some_and(Frame::is_complete);
            if !ready || self.broken {
                let key = self.frames.iter().find(|(_, frame)| frame.key && frame.is_complete());
                if let Some((&number, _)) = key
                    && number > self.next
                {
                    self.totals.lost += u64::from(number - self.next);
                    self.frames = self.frames.split_off(&number);
                    (self.next, self.broken) = (number, false);
                    continue;
                }
            }
            if let Some(frame) = self.frames.get(&self.next).filter(|_| ready) {
                if self.broken && !frame.key {
                    self.totals.lost += 1;
                } else if now < frame.captured + self.delay {
                    return frame.captured + self.delay;
                } else {
                    self.broken = false;
                    let (delay, kbps) = (now.saturating_since(frame.captured), frame.kbps);
                    self.on_screen(now, delay, kbps);
                }
            } else {
                let newer = self.frames.range(self.next + 1..).next();
                let Some((_, newer)) = newer else { return Timestamp::NEVER };
                let until = newer.first + self.patience;
                if now < until {
                    return until;
                }
                self.totals.lost += 1;
                self.broken = true;
            }
            self.frames.remove(&self.next);
            self.next += 1;
        }
    }

    /// A frame appears on the screen.
    fn on_screen(&mut self, now: Timestamp, delay: TimeDelta, kbps: u32) {
        if let Some(last) = self.picture {
            let duration = now.saturating_since(last.since);
            if last.frozen.is_none() {
                self.totals.watched += duration;
                self.totals.quality += duration.mul_f64(last.quality);
            }
            if self.durations.len() == RECENT {
                self.durations.pop_front();
            }
            self.durations.push_back(duration);
            let sum: TimeDelta = self.durations.iter().fold(TimeDelta::ZERO, |sum, duration| sum + *duration);
            let mean = sum / self.durations.len() as u64;
            self.freeze_after = Some(mean.saturating_mul(3).max(mean + FREEZE));
        }
        self.picture = Some(Picture { since: now, quality: self.quality_of(kbps), frozen: None });
        self.totals.shown += 1;
        self.totals.late += u64::from(delay > self.late);
        self.shown.push_back(delay);
    }

    /// The quality of a picture at an encoder's rate.
    fn quality_of(&self, kbps: u32) -> f64 {
        let (low, high) = self.range;
        if high <= low {
            return 1.0;
        }
        (float::ln(f64::from(kbps.max(1)) / low) / float::ln(high / low)).clamp(0.0, 1.0)
    }

    /// When the picture on the screen becomes frozen, or is counted as frozen for longer.
    fn freeze_wake(&self) -> Timestamp {
        match (self.picture, self.freeze_after) {
            _ if self.stopped => Timestamp::NEVER,
            (Some(Picture { frozen: Some(until), .. }), _) => until + TICK,
            (Some(picture), Some(after)) => picture.since + after,
            _ => Timestamp::NEVER,
        }
    }

    /// Counts the freeze that there is at `now`, if there is one.
    fn count_freeze(&mut self, now: Timestamp) {
        let Some(after) = self.freeze_after.filter(|_| !self.stopped) else { return };
        let Some(picture) = &mut self.picture else { return };
        let more = match picture.frozen {
            Some(until) => now.saturating_since(until),
            None if now >= picture.since + after => {
                self.totals.freezes += 1;
                now.saturating_since(picture.since)
            }
            None => return,
        };
        picture.frozen = Some(now);
        self.totals.frozen += more;
        self.totals.watched += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of two packets each, 40 ms apart, captured from 0 on.
    fn packet(frame: u32, index: u16) -> MediaPacket {
        MediaPacket {
            seq: u64::from(frame) * 2 + u64::from(index),
            captured: Timestamp::from_millis(u64::from(frame) * 40),
            frame,
            index,
            count: 2,
            key: frame == 0,
            kbps: 300,
            bytes: 1000,
            again: false,
        }
    }

    fn playout() -> Playout {
        Playout::new(&MediaParams::default())
    }

    /// Shows frames whose packets arrive 100 ms after their capture.
    fn watch(playout: &mut Playout, frames: std::ops::Range<u32>) {
        for frame in frames {
            for index in [0, 1] {
                let packet = packet(frame, index);
                playout.insert(packet.captured + TimeDelta::from_millis(100), &packet);
            }
        }
    }

    #[test]
    fn a_frame_is_shown_when_all_of_it_is_there_and_those_before_it_were_shown() {
        let mut playout = playout();
        let at = Timestamp::from_millis;
        assert!(playout.insert(at(100), &packet(0, 1)));
        assert!(!playout.insert(at(101), &packet(0, 1)));
        playout.insert(at(110), &packet(1, 0));
        playout.insert(at(111), &packet(1, 1));
        assert_eq!(playout.poll_shown(), None);
        playout.insert(at(130), &packet(0, 0));
        let delays: Vec<u64> =
            std::iter::from_fn(|| playout.poll_shown()).map(TimeDelta::as_millis).collect();
        assert_eq!(delays, [130, 90]);
    }

    #[test]
    fn nothing_is_shown_before_the_playout_delay() {
        let mut playout = Playout::new(&MediaParams {
            playout_delay: TimeDelta::from_millis(150),
            ..MediaParams::default()
        });
        watch(&mut playout, 0..1);
        assert_eq!((playout.poll_shown(), playout.poll_timeout()), (None, Timestamp::from_millis(150)));
        playout.advance(Timestamp::from_millis(150));
        assert_eq!(playout.poll_shown(), Some(TimeDelta::from_millis(150)));
    }

    #[test]
    fn after_a_frame_is_given_up_only_a_key_frame_is_shown() {
        let mut playout = playout();
        watch(&mut playout, 0..3);
        // Frame 3 misses a packet; frame 4 begins to arrive at 260 ms.
        playout.insert(Timestamp::from_millis(220), &packet(3, 0));
        watch(&mut playout, 4..8);
        assert_eq!((playout.totals().shown, playout.wants_key_frame()), (3, false));
        assert_eq!(playout.poll_timeout(), Timestamp::from_millis(460));
        playout.advance(Timestamp::from_millis(460));
        assert!(playout.wants_key_frame());
        assert_eq!(playout.totals().lost, 5);
        watch(&mut playout, 8..9);
        assert_eq!(playout.totals().lost, 6);
        for index in [0, 1] {
            playout.insert(Timestamp::from_millis(520), &MediaPacket { key: true, ..packet(9, index) });
        }
        assert_eq!((playout.totals().shown, playout.totals().lost, playout.wants_key_frame()), (4, 6, false));
    }

    #[test]
    fn a_freeze_is_counted_while_it_lasts_and_as_long_as_it_is() {
        let mut playout = playout();
        watch(&mut playout, 0..20);
        // The last picture came at 860 ms; the mean is 40 ms, so that it is frozen from 1050 ms on.
        playout.advance(Timestamp::from_millis(1049));
        assert_eq!(playout.totals().freezes, 0);
        assert_eq!(playout.poll_timeout(), Timestamp::from_millis(1050));
        playout.advance(Timestamp::from_millis(1050));
        assert_eq!((playout.totals().freezes, playout.totals().frozen.as_millis()), (1, 190));
        playout.advance(playout.poll_timeout());
        assert_eq!((playout.totals().freezes, playout.totals().frozen.as_millis()), (1, 290));
        for index in [0, 1] {
            playout.insert(Timestamp::from_millis(1260), &packet(20, index));
        }
        let totals = *playout.totals();
        assert_eq!((totals.freezes, totals.frozen.as_millis()), (1, 400));
        // From 100 ms on, of which the freeze counts for nothing: ln(2) / ln(10) of the rest.
        assert_eq!(totals.watched.as_millis(), 1160);
        let quality = totals.quality.as_secs_f64() / totals.watched.as_secs_f64();
        assert!((quality - 0.301 * 760.0 / 1160.0).abs() < 0.001, "{quality}");
    }

    #[test]
    fn there_is_no_freeze_after_the_end() {
        let mut playout = playout();
        watch(&mut playout, 0..20);
        playout.stop(Timestamp::from_millis(900));
        assert_eq!(playout.poll_timeout(), Timestamp::NEVER);
        playout.advance(Timestamp::from_secs(2));
        assert_eq!(playout.totals().freezes, 0);
    }
}
