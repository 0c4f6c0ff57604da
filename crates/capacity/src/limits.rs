//! What a server grants, and its limits for clients without a key.
//!
//! The server sends to strangers on request. So a stranger may not request a sender that ignores congestion: the sender's algorithm has its
//! default parameters, its timers and its initial window are those of TCP (RFC 6298, RFC 6928), and its rate is limited. Every limit is a
//! field of [`StrangerLimits`]; checks, refusals, help texts and the manual are generated from [`Bound`].

use warpline_core::parameter::{Choice, Component};
use warpline_core::{Bytes, Rate, TimeDelta};

use super::options::{CapOptions, Direction};
use warpline_transport::cc::{Algorithm, FixedParams};

/// What a server grants.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Most clients at the same time.
    pub clients: usize,
    /// Longest test.
    pub duration: TimeDelta,
    /// Highest rate of a test, on the wire; `None` for any.
    pub rate: Option<Rate>,
    /// How long a client may be silent before it is forgotten.
    pub patience: TimeDelta,
    /// The key that clients must have, if any.
    pub key: Option<Vec<u8>>,
    /// Limits for clients if there is no key; `None` trusts every client, as a simulation does.
    pub strangers: Option<StrangerLimits>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            clients: 16,
            duration: TimeDelta::from_secs(600),
            rate: None,
            patience: TimeDelta::from_secs(30),
            key: None,
            strangers: Some(StrangerLimits::default()),
        }
    }
}

impl ServerLimits {
    /// The limits for strangers, if clients are strangers; clients of a server with a key are not.
    pub fn for_strangers(&self) -> Option<&StrangerLimits> {
        self.strangers.as_ref().filter(|_| self.key.is_none())
    }

    /// The highest rate of a test; `None` for any.
    pub fn granted_rate(&self) -> Option<Rate> {
        let strangers = self.for_strangers().and_then(|limits| limits.rate);
        match (self.rate, strangers) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Limits for a client without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangerLimits {
    /// Highest rate of a test, on the wire; `None` for any.
    pub rate: Option<Rate>,
    /// Most tests at the same time from one address; an IPv6 address counts as its /56, the usual allocation of one site.
    pub clients_per_address: usize,
    /// Smallest first and smallest later retransmission time-out if the server sends.
    pub rto: TimeDelta,
    /// Smallest upper bound of the time-out if the server sends: it must be able to back off (RFC 6298, rule 2.5).
    pub max_rto: TimeDelta,
    /// Largest initial window in segments if the server sends (RFC 6928).
    pub initial_segments: u32,
    /// Largest initial window in bytes of payload if the server sends; one segment is always allowed.
    pub initial_bytes: u64,
    /// Largest window that either end may advertise, in bytes: data in flight takes memory.
    pub window: u64,
}

impl Default for StrangerLimits {
    fn default() -> Self {
        StrangerLimits {
            rate: Some(Rate::from_bps(100_000_000)),
            clients_per_address: 4,
            rto: TimeDelta::from_millis(200),
            max_rto: TimeDelta::from_secs(60),
            initial_segments: 10,
            initial_bytes: 64_000,
            window: 20_000_000,
        }
    }
}

/// An option that is limited for a client without a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Bound {
    /// A window that ignores congestion.
    FixedWindow,
    /// Congestion control parameters other than the defaults.
    Parameters,
    /// A first time-out that is too short.
    InitialRto,
    /// A smallest time-out that is too short.
    MinRto,
    /// A largest time-out that is too short.
    MaxRto,
    /// An initial window that is too large.
    InitialWindow,
    /// An advertised window that is too large.
    Window,
}

impl Bound {
    /// All of them. A refusal contains the position in this array, from one on.
    pub const ALL: [Bound; 7] = [
        Bound::FixedWindow,
        Bound::Parameters,
        Bound::InitialRto,
        Bound::MinRto,
        Bound::MaxRto,
        Bound::InitialWindow,
        Bound::Window,
    ];

    /// The bound with this `code` in a refusal.
    pub fn from_code(code: u32) -> Option<Bound> {
        Bound::ALL.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
    }

    /// Its code in a refusal.
    pub fn code(self) -> u32 {
        self as u32 + 1
    }

    /// The limited option, by its name on the command line.
    pub const fn option(self) -> &'static str {
        match self {
            Bound::FixedWindow | Bound::Parameters => "--cc",
            Bound::InitialRto => "--initial-rto",
            Bound::MinRto => "--min-rto",
            Bound::MaxRto => "--max-rto",
            Bound::InitialWindow => "--initial-window",
            Bound::Window => "--window",
        }
    }

    /// What is allowed, as a part of a sentence.
    pub fn allowed(self, limits: &StrangerLimits) -> String {
        match self {
            Bound::FixedWindow => {
                format!("any but {}", FixedParams::KIND)
            }
            Bound::Parameters => "with its default parameters".into(),
            Bound::InitialRto | Bound::MinRto => format!("{:#} or more", limits.rto),
            Bound::MaxRto => format!("{:#} or more", limits.max_rto),
            Bound::InitialWindow => format!(
                "at most {} segments, and at most {:#} of data unless it is one segment",
                limits.initial_segments,
                Bytes(limits.initial_bytes)
            ),
            Bound::Window => format!("at most {:#}", Bytes(limits.window)),
        }
    }

    /// Whether it also applies to tests in which the server receives.
    pub const fn both_ways(self) -> bool {
        matches!(self, Bound::Window)
    }

    fn is_broken(self, limits: &StrangerLimits, options: &CapOptions) -> bool {
        match self {
            Bound::FixedWindow => matches!(options.cc, Algorithm::Fixed(_)),
            Bound::Parameters => !options.cc.given().is_empty(),
            Bound::InitialRto => options.initial_rto < limits.rto,
            Bound::MinRto => options.min_rto < limits.rto,
            Bound::MaxRto => options.max_rto < limits.max_rto,
            Bound::InitialWindow => {
                let payload = options.tcp(TimeDelta::ZERO).payload();
                let segments = options.initial_window;
                let bytes = u64::from(segments) * payload;
                segments > limits.initial_segments || (segments > 1 && bytes > limits.initial_bytes)
            }
            Bound::Window => options.window > limits.window,
        }
    }
}

impl StrangerLimits {
    /// The first bound that a client without a key exceeds with `options`.
    pub fn broken(&self, options: &CapOptions) -> Option<Bound> {
        let sends = options.direction == Direction::Reverse;
        Bound::ALL
            .into_iter()
            .filter(|bound| sends || bound.both_ways())
            .find(|bound| bound.is_broken(self, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reverse(change: impl FnOnce(&mut CapOptions)) -> CapOptions {
        let mut options = CapOptions { direction: Direction::Reverse, ..CapOptions::default() };
        change(&mut options);
        options.validate().unwrap();
        options
    }

    /// Options that exceed one bound each, with the bound's text.
    fn breaking() -> Vec<(Bound, CapOptions)> {
        let ms = TimeDelta::from_millis;
        vec![
            (Bound::FixedWindow, reverse(|o| o.cc = "fixed:segments=3000".parse().unwrap())),
            (Bound::Parameters, reverse(|o| o.cc = "cubic:beta=0.999".parse().unwrap())),
            (Bound::InitialRto, reverse(|o| o.initial_rto = ms(199))),
            (Bound::MinRto, reverse(|o| o.min_rto = ms(1))),
            (Bound::MaxRto, reverse(|o| (o.max_rto, o.initial_rto) = (ms(1000), ms(1000)))),
            (Bound::InitialWindow, reverse(|o| o.initial_window = 11)),
            (Bound::InitialWindow, reverse(|o| (o.segment, o.initial_window) = (65_507, 2))),
            (Bound::Window, reverse(|o| o.window = 20_000_001)),
        ]
    }

    #[test]
    fn each_bound_is_found_and_has_a_code_of_its_own() {
        let limits = StrangerLimits::default();
        let mut found: Vec<Bound> = Vec::new();
        for (bound, options) in breaking() {
            assert_eq!(limits.broken(&options), Some(bound), "{options:?}");
            assert_eq!(Bound::from_code(bound.code()), Some(bound));
            found.push(bound);
        }
        found.dedup();
        assert_eq!(found, Bound::ALL, "every bound can be broken");
        assert_eq!((Bound::from_code(0), Bound::from_code(99)), (None, None));
    }

    #[test]
    fn the_presets_of_both_ways_and_every_algorithm_are_within_the_bounds() {
        let limits = StrangerLimits::default();
        for preset in [CapOptions::default(), CapOptions::classic()] {
            assert_eq!(limits.broken(&preset), None);
            assert_eq!(limits.broken(&CapOptions { direction: Direction::Reverse, ..preset }), None);
        }
        for name in Algorithm::KINDS.iter().filter(|&&name| name != FixedParams::KIND) {
            assert_eq!(limits.broken(&reverse(|o| o.cc = name.parse().unwrap())), None, "{name}");
        }
        // One segment of the largest size is an initial window that a stranger may have.
        assert_eq!(limits.broken(&reverse(|o| (o.segment, o.initial_window) = (65_507, 1))), None);
    }

    #[test]
    fn where_the_server_receives_only_its_memory_is_bounded() {
        let limits = StrangerLimits::default();
        for (bound, options) in breaking() {
            let forward = CapOptions { direction: Direction::Forward, ..options };
            assert_eq!(limits.broken(&forward), Some(bound).filter(|bound| bound.both_ways()));
        }
    }

    #[test]
    fn a_key_or_an_operator_lifts_the_rate() {
        let rate = |bps| Some(Rate::from_bps(bps));
        let open = ServerLimits::default();
        assert_eq!(open.granted_rate(), StrangerLimits::default().rate);
        assert_eq!(ServerLimits { rate: rate(5), ..open.clone() }.granted_rate(), rate(5));
        let keyed = ServerLimits { key: Some(b"key".to_vec()), ..open.clone() };
        assert_eq!((keyed.granted_rate(), keyed.for_strangers()), (None, None));
        let lifted = StrangerLimits { rate: None, ..StrangerLimits::default() };
        assert_eq!(ServerLimits { strangers: Some(lifted), ..open }.granted_rate(), None);
    }
}
