//! Parameters of TCP Nice in the kernel, in units for users and in the form of the BPF programs.

use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;
use warpline_transport::cc::NiceParams;

use super::BpfError;

/// Parameters of TCP Nice in the kernel; the defaults are those of `warpline_transport::cc::NiceParams`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// The point between the smallest RTT (0) and the largest (1) beyond which a packet is late.
    pub threshold: f64,
    /// Share of a round's packets that must be late for the window to be reduced.
    pub fraction: f64,
    /// Share of the window that remains after a reduction for delay.
    pub decrease: f64,
    /// Smallest window in segments.
    pub floor: f64,
    /// Vegas's alpha in segments.
    pub alpha: f64,
    /// Vegas's beta in segments.
    pub beta: f64,
    /// Vegas's gamma in segments.
    pub gamma: f64,
    /// Segments by which the window grows in a round trip while the queue is empty.
    pub growth: f64,
    /// Delay at which the window stops growing, as a share of the delay at which a packet is late; 0 for growth at any delay.
    pub target: f64,
    /// The largest RTT after the first sample, as a multiple of the smallest.
    pub start: f64,
    /// Milliseconds above the smallest RTT at which a packet is late in any case; `None` for no such limit.
    pub most_delay_ms: Option<f64>,
    /// Full-size packets that may wait at the narrowest link before any is late.
    pub own_packets: f64,
    /// Least time in seconds for which the smallest and the largest RTT are remembered, at most twice that; 0 for ever.
    pub base_window_s: f64,
    /// Whether the largest RTT is taken over the rounds' smallest ones.
    pub max_of_rounds: bool,
    /// Whether the window is reduced as soon as enough packets were late.
    pub prompt: bool,
}

impl From<NiceParams> for Parameters {
    fn from(nice: NiceParams) -> Self {
        let most_delay = (nice.most_delay != TimeDelta::MAX).then(|| nice.most_delay.as_secs_f64() * 1e3);
        Parameters {
            threshold: nice.threshold,
            fraction: nice.fraction,
            decrease: nice.decrease,
            floor: nice.floor,
            alpha: nice.alpha,
            beta: nice.beta,
            gamma: nice.gamma,
            growth: nice.growth,
            target: nice.target,
            start: nice.start,
            most_delay_ms: most_delay,
            own_packets: nice.own_packets,
            base_window_s: nice.base_window.as_secs_f64(),
            max_of_rounds: nice.max_of_rounds,
            prompt: nice.prompt,
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        NiceParams::default().into()
    }
}

/// `struct nice_parameters` in `native/bpf/nice.h`, word by word: threshold, fraction, decrease, floor, alpha, beta, gamma, layout, start,
/// most_delay, span, flags, own_packets, growth, target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(bpf_object), allow(dead_code))]
pub(super) struct RawParameters([u32; 15]);

/// `NICE_LAYOUT` in `native/bpf/nice.h`.
pub(super) const LAYOUT: u32 = 4;
/// `NICE_ONE`: a segment.
pub(super) const SEGMENT: f64 = 4096.0;
const PART: f64 = 65536.0;
/// A unit of `span` in seconds.
const SPAN: f64 = 1024e-6;
/// `NICE_MAX_OF_ROUNDS` and `NICE_PROMPT`.
const MAX_OF_ROUNDS: u32 = 1;
const PROMPT: u32 = 2;

impl Parameters {
    /// The paper's parameters.
    pub fn paper() -> Self {
        NiceParams::paper().into()
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn validate(&self) -> Result<(), BpfError> {
        let check = |what, value: f64, low: f64, high: f64, allowed| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(BpfError::Parameter { what, value, allowed })
            }
        };
        check("threshold", self.threshold, 0.0, 1.0, "0 to 1")?;
        check("fraction", self.fraction, 0.0, 1.0, "0 to 1")?;
        check("decrease", self.decrease, 0.0, 0.99, "0 to 0.99")?;
        check("floor", self.floor, 1.0 / 1024.0, 1000.0, "1/1024 to 1000 segments")?;
        check("alpha", self.alpha, 0.0, 1000.0, "0 to 1000 segments")?;
        check("beta", self.beta, self.alpha, 1000.0, "alpha to 1000 segments")?;
        check("gamma", self.gamma, 0.0, 1000.0, "0 to 1000 segments")?;
        check("growth", self.growth, 0.01, 1000.0, "0.01 to 1000 segments")?;
        check("target", self.target, 0.0, 1.0, "0 to 1")?;
        check("start", self.start, 1.0, 1000.0, "1 to 1000")?;
        if let Some(delay) = self.most_delay_ms {
            check("largest delay", delay, 0.01, 1e6, "0.01 to 1000000 milliseconds")?;
        }
        check("own packets", self.own_packets, 0.0, 1000.0, "0 to 1000 packets")?;
        check("base window", self.base_window_s, 0.0, 86_400.0, "0 to 86400 seconds")
    }

    #[cfg_attr(not(bpf_object), allow(dead_code))]
    pub(super) fn raw(&self) -> RawParameters {
        let part = |value: f64| (value * PART).round() as u32;
        let segments = |value: f64| (value * SEGMENT).ceil() as u32;
        RawParameters([
            part(self.threshold),
            part(self.fraction),
            part(self.decrease),
            segments(self.floor).max(1),
            segments(self.alpha),
            segments(self.beta),
            segments(self.gamma),
            LAYOUT,
            part(self.start),
            self.most_delay_ms.map_or(u32::MAX, |delay| (delay * 1e3).round() as u32),
            (self.base_window_s / SPAN).ceil() as u32,
            if self.max_of_rounds { MAX_OF_ROUNDS } else { 0 } | if self.prompt { PROMPT } else { 0 },
            segments(self.own_packets),
            segments(self.growth),
            part(self.target),
        ])
    }
}

#[cfg_attr(not(bpf_object), allow(dead_code))]
impl RawParameters {
    pub(super) const SIZE: usize = 60;

    pub(super) fn bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<RawParameters> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let mut words = [0; 15];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(from.try_into().ok()?);
        }
        Some(RawParameters(words))
    }

    pub(super) fn layout(self) -> u32 {
        self.0[7]
    }

    pub(super) fn parameters(self) -> Parameters {
        let [
            threshold,
            fraction,
            decrease,
            floor,
            alpha,
            beta,
            gamma,
            _,
            start,
            most_delay,
            span,
            flags,
            own,
            growth,
            target,
        ] = self.0;
        Parameters {
            threshold: f64::from(threshold) / PART,
            fraction: f64::from(fraction) / PART,
            decrease: f64::from(decrease) / PART,
            floor: f64::from(floor) / SEGMENT,
            alpha: f64::from(alpha) / SEGMENT,
            beta: f64::from(beta) / SEGMENT,
            gamma: f64::from(gamma) / SEGMENT,
            growth: f64::from(growth) / SEGMENT,
            target: f64::from(target) / PART,
            start: f64::from(start) / PART,
            most_delay_ms: (most_delay != u32::MAX).then(|| f64::from(most_delay) / 1e3),
            own_packets: f64::from(own) / SEGMENT,
            base_window_s: f64::from(span) * SPAN,
            max_of_rounds: flags & MAX_OF_ROUNDS != 0,
            prompt: flags & PROMPT != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_their_way_to_the_kernel() {
        let raw = Parameters::default().raw();
        assert_eq!(
            raw.0,
            [
                13107, 26214, 45875, 86, 4096, 12288, 4096, LAYOUT, 131_072, 10_000, 585_938, 3, 16_384,
                6144, 32768
            ]
        );
        assert_eq!(RawParameters::from_bytes(&raw.bytes()), Some(raw));
        assert!((raw.parameters().threshold - 0.2).abs() < 1e-4);
        let paper = Parameters::paper().raw();
        assert_eq!(paper.0[8..], [131_072, u32::MAX, 0, 0, 0, 4096, 0]);
        assert_eq!(paper.parameters().most_delay_ms, None);
    }

    /// The text of the header between two marks.
    fn between<'a>(header: &'a str, from: &str, to: &str) -> &'a str {
        header
            .split(from)
            .nth(1)
            .and_then(|rest| rest.split(to).next())
            .unwrap_or_else(|| panic!("no {from}"))
    }

    #[test]
    fn the_header_has_the_same_words_in_the_same_order() {
        let header = include_str!("../../../../native/bpf/nice.h");
        let body = between(header, "struct nice_parameters {", "};");
        let words: Vec<&str> =
            body.lines().filter_map(|line| line.trim().strip_prefix("u32 ")?.strip_suffix(';')).collect();
        assert_eq!(4 * words.len(), RawParameters::SIZE);
        let place =
            |name: &str| words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("no {name}"));
        // One parameter at a time is changed: its word changes, and no other.
        let plain = Parameters::default();
        for (name, changed) in [
            ("threshold", Parameters { threshold: 0.9, ..plain }),
            ("fraction", Parameters { fraction: 0.9, ..plain }),
            ("decrease", Parameters { decrease: 0.9, ..plain }),
            ("floor", Parameters { floor: 9.0, ..plain }),
            ("alpha", Parameters { alpha: 9.0, ..plain }),
            ("beta", Parameters { beta: 9.0, ..plain }),
            ("gamma", Parameters { gamma: 9.0, ..plain }),
            ("growth", Parameters { growth: 9.0, ..plain }),
            ("target", Parameters { target: 0.9, ..plain }),
            ("start", Parameters { start: 9.0, ..plain }),
            ("most_delay", Parameters { most_delay_ms: None, ..plain }),
            ("own_packets", Parameters { own_packets: 9.0, ..plain }),
            ("span", Parameters { base_window_s: 9.0, ..plain }),
            ("flags", Parameters { max_of_rounds: false, ..plain }),
            ("flags", Parameters { prompt: false, ..plain }),
        ] {
            let (before, after) = (plain.raw().0, changed.raw().0);
            let differing: Vec<usize> = (0..before.len()).filter(|&i| before[i] != after[i]).collect();
            assert_eq!(differing, [place(name)], "{name}");
        }
        assert_eq!(plain.raw().0[place("layout")], LAYOUT);
        let defined =
            |name: &str| between(header, &format!("#define {name} "), "u\n").parse::<u32>().unwrap();
        assert_eq!(f64::from(defined("NICE_ONE")), SEGMENT);
        assert_eq!((defined("NICE_LAYOUT"), defined("NICE_MAX_OF_ROUNDS")), (LAYOUT, MAX_OF_ROUNDS));
        assert_eq!(defined("NICE_PROMPT"), PROMPT);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert!(Parameters::default().validate().is_ok());
        assert!(Parameters::paper().validate().is_ok());
        for wrong in [
            Parameters { threshold: 1.1, ..Parameters::default() },
            Parameters { fraction: f64::NAN, ..Parameters::default() },
            Parameters { decrease: 1.0, ..Parameters::default() },
            Parameters { floor: 0.0, ..Parameters::default() },
            Parameters { beta: 0.5, ..Parameters::default() },
            Parameters { growth: 0.0, ..Parameters::default() },
            Parameters { target: 1.5, ..Parameters::default() },
            Parameters { start: 0.9, ..Parameters::default() },
            Parameters { most_delay_ms: Some(0.0), ..Parameters::default() },
            Parameters { base_window_s: -1.0, ..Parameters::default() },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
