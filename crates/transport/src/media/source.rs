//! A model of a video encoder: how large its frames are, and how it follows a target rate.
//!
//! Source: RFC 8593 section 5, the synthetic model. Frame sizes differ from their mean by a Laplace distribution; the encoder takes a new target
//! rate only 200 ms after the last one (tau_v); a key frame is some three times a mean frame, and the seven frames after it are smaller, so
//! that eight frames (K_d) have the target rate.
//!
//! Departures: frames come at even intervals (SCALE_t is 0). There are key frames at the start, at fixed intervals, and when the receiver asks,
//! not at every large change of the target rate. No frame is smaller than a fifth of the mean, or made larger by chance than 1.8 times that.

use warpline_core::{Stream, TimeDelta, Timestamp, float};

use super::{HEADERS, MediaParams};

/// Shortest time between two changes of the encoder's rate.
const REACTION: TimeDelta = TimeDelta::from_millis(200);
/// Frames in which the size of a key frame is made up for, itself among them.
const BURST: u32 = 8;

/// A frame as it leaves the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// Bytes of its packets on the wire.
    pub(super) bytes: u64,
    /// Number of its packets.
    pub(super) count: u16,
    pub(super) key: bool,
    /// The encoder's rate in kbit/s.
    pub(super) kbps: u32,
}

/// An encoder.
#[derive(Clone, Debug)]
pub(super) struct Source {
    frame_rate: f64,
    noise: f64,
    key_size: f64,
    key_interval: TimeDelta,
    packet: u64,
    /// The encoder's own rate in bit/s, and when it took it.
    rate: f64,
    changed: Option<Timestamp>,
    /// Frames since the last key frame.
    since_key: u32,
    key_at: Option<Timestamp>,
    stream: Stream,
}

impl Source {
    pub(super) fn new(params: &MediaParams, stream: Stream) -> Self {
        Source {
            frame_rate: params.frame_rate,
            noise: params.size_noise,
            key_size: params.key_frame_size,
            key_interval: params.key_frame_interval,
            packet: params.packet_size.0.max(u64::from(HEADERS) + 1),
            rate: params.start_bitrate.as_bps() as f64,
            changed: None,
            since_key: 0,
            key_at: None,
            stream,
        }
    }

    /// When the last key frame was made.
    pub(super) fn key_at(&self) -> Option<Timestamp> {
        self.key_at
    }

    /// Encodes a frame at `now`, for a target rate in bit/s; as a key frame if `key`.
    pub(super) fn encode(&mut self, now: Timestamp, target: f64, key: bool) -> Encoded {
        if self.changed.is_none_or(|at| now.saturating_since(at) >= REACTION) && target != self.rate {
            (self.rate, self.changed) = (target, Some(now));
        }
        let due = !self.key_interval.is_zero()
            && self.key_at.is_some_and(|at| now.saturating_since(at) >= self.key_interval);
        let key = key || due || self.key_at.is_none();
        self.since_key = if key { 0 } else { self.since_key.saturating_add(1) };
        if key {
            self.key_at = Some(now);
        }
        let share = match self.since_key {
            0 => self.key_size,
            frames if frames < BURST => (f64::from(BURST) - self.key_size) / f64::from(BURST - 1),
            _ => 1.0,
        };
        let factor = (1.0 + self.laplace()).clamp(0.2, 1.8);
        let bytes = (self.rate / 8.0 / self.frame_rate * (share * factor).max(0.2)) as u64;
        let count = bytes.div_ceil(self.packet).clamp(1, u64::from(u16::MAX));
        // Every packet carries at least a byte.
        let bytes = bytes.clamp(count * (u64::from(HEADERS) + 1), count * self.packet);
        Encoded { bytes, count: count as u16, key, kbps: (self.rate / 1000.0) as u32 }
    }

    /// Of a Laplace distribution with mean zero, by inversion.
    fn laplace(&mut self) -> f64 {
        let u = self.stream.uniform() - 0.5;
        let size = -self.noise * float::ln((1.0 - 2.0 * u.abs()).max(f64::MIN_POSITIVE));
        if u < 0.0 { -size } else { size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    fn source(params: &MediaParams) -> Source {
        Source::new(params, Streams::new(1).stream("source"))
    }

    fn frame(number: u64) -> Timestamp {
        Timestamp::from_nanos(number * 1_000_000_000 / 30)
    }

    #[test]
    fn frames_have_the_target_rate_on_average_with_key_frames_among_them() {
        let params = MediaParams { key_frame_interval: TimeDelta::from_secs(2), ..MediaParams::default() };
        let mut source = source(&params);
        let bytes: u64 = (0..3000).map(|n| source.encode(frame(n), 1e6, false).bytes).sum();
        let rate = bytes as f64 * 8.0 / 100.0;
        assert!((rate / 1e6 - 1.0).abs() < 0.02, "{rate}");
    }

    #[test]
    fn sizes_spread_as_their_distribution_says() {
        let mut source = source(&MediaParams {
            start_bitrate: warpline_core::Rate::from_bps(1_200_000),
            ..MediaParams::default()
        });
        let sizes: Vec<f64> = (0..20_000)
            .map(|n| source.encode(frame(n), 1.2e6, false).bytes as f64 / 5000.0)
            .skip(8)
            .collect();
        // The mean distance from the mean is the scale of a Laplace distribution.
        let spread = sizes.iter().map(|size| (size - 1.0).abs()).sum::<f64>() / sizes.len() as f64;
        assert!((spread - 0.15).abs() < 0.01, "{spread}");
    }

    #[test]
    fn a_new_rate_is_taken_200_ms_after_the_last_one() {
        let quiet = MediaParams { size_noise: 0.0, ..MediaParams::default() };
        let mut source = source(&quiet);
        let kbps = |source: &mut Source, millis, target| {
            source.encode(Timestamp::from_millis(millis), target, false).kbps
        };
        assert_eq!(kbps(&mut source, 1000, 800e3), 800);
        assert_eq!(kbps(&mut source, 1199, 600e3), 800);
        assert_eq!(kbps(&mut source, 1200, 600e3), 600);
    }

    #[test]
    fn a_key_frame_is_larger_and_made_up_for_by_the_next_seven() {
        let quiet = MediaParams { size_noise: 0.0, ..MediaParams::default() };
        let mut source = source(&quiet);
        let sizes: Vec<Encoded> = (0..9).map(|n| source.encode(frame(n), 300e3, false)).collect();
        assert!(sizes[0].key && !sizes[1].key);
        assert_eq!(sizes[0].bytes, 4000);
        assert_eq!(sizes[8].bytes, 1250);
        let burst: u64 = sizes[..8].iter().map(|frame| frame.bytes).sum();
        assert!(burst.abs_diff(10_000) < 8, "{burst}");
        assert!(source.encode(frame(9), 300e3, true).key);
    }
}
