//! Round-trip time and the retransmission time-out (RFC 6298; Linux `net/ipv4/tcp_input.c`, `tcp_rtt_estimator`).

use warpline_core::{TimeDelta, Timestamp};

use super::config::{RtoVariance, TcpConfig};

/// Smoothed RTT and retransmission time-out of one connection.
///
/// ```
/// use warpline_core::TimeDelta;
/// use warpline_transport::tcp::{Rtt, RtoVariance, TcpConfig};
///
/// let config = TcpConfig { rto_variance: RtoVariance::Rfc6298, min_rto: TimeDelta::ZERO, ..TcpConfig::default() };
/// let mut rtt = Rtt::new(&config);
/// rtt.sample(TimeDelta::from_millis(100), 1, 1);
/// assert_eq!(rtt.srtt(), TimeDelta::from_millis(100));
/// // RFC 6298 section 2.2: SRTT + 4 * RTTVAR, and RTTVAR is half of the first sample.
/// assert_eq!(rtt.rto(), TimeDelta::from_millis(300));
/// ```
// All in nanoseconds; what every sample touches first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Rtt {
    srtt: u64,
    /// RFC 6298's RTTVAR, or Linux's smoothed maximum of the mean deviation.
    rttvar: u64,
    /// Linux: mean deviation now, and its maximum within the current round trip.
    mdev: u64,
    mdev_max: u64,
    /// The round trip ends when this is acknowledged.
    round_end: u64,
    min: u64,
    rto: u64,
    backoff: u32,
    linux: bool,
    max_rto: u64,
    granularity: u64,
    /// Phase of the heartbeat that time-outs wait for; [`NO_HEARTBEAT`] where there is none.
    heartbeat: u64,
    min_rto: u64,
}

/// How much longer short timers wait at least, in nanoseconds.
const LEAST_WAIT: u64 = 2_000_000;
/// No phase.
const NO_HEARTBEAT: u64 = u64::MAX;

impl Rtt {
    /// Before the first sample: the time-out is `config.initial_rto`. The bounds, the granularity and the kind of variance are the
    /// configuration's.
    pub fn new(config: &TcpConfig) -> Self {
        let mut rtt = Rtt {
            srtt: 0,
            rttvar: 0,
            mdev: 0,
            mdev_max: 0,
            round_end: 0,
            min: u64::MAX,
            rto: 0,
            backoff: 0,
            linux: config.rto_variance == RtoVariance::Linux,
            min_rto: config.min_rto.as_nanos(),
            max_rto: config.max_rto.as_nanos(),
            granularity: config.tick.as_nanos(),
            heartbeat: if config.heartbeat { config.heartbeat_phase.as_nanos() } else { NO_HEARTBEAT },
        };
        rtt.rto = rtt.rounded(config.initial_rto.as_nanos());
        rtt
    }

    /// Takes a sample. `una`, the oldest byte that is not acknowledged, and `nxt`, the next byte to send, tell round trips apart. A
    /// valid sample ends back-off (RFC 6298 section 5, Karn).
    ///
    /// RFC 6298's gains assume one sample per round trip (its section 3), which is what BSD and ns-2 take. With a
    /// sample per acknowledgement, RTTVAR would only show how much neighbouring samples differ, and the time-out
    /// would be hardly above the RTT. So the other samples of a round trip are left out. Linux's estimator takes all
    /// of them.
    #[inline(always)]
    pub fn sample(&mut self, rtt: TimeDelta, una: u64, nxt: u64) {
        let r = rtt.as_nanos().max(1);
        self.backoff = 0;
        if self.srtt == 0 {
            self.begin(r, nxt);
        } else if self.linux {
            let error = r as i64 - self.srtt as i64;
            self.srtt = (self.srtt as i64 + (error >> 3)).max(1) as u64;
            self.linux_variance(error, una, nxt);
        } else if una < self.round_end {
            return;
        } else {
            self.rfc_6298(r, nxt);
        }
        let variance = (self.rttvar * 4).max(self.granularity);
        let rto = self.srtt + variance;
        let rto = if self.linux { rto } else { rto.max(self.min_rto) };
        self.rto = if self.granularity == 0 { rto.min(self.max_rto) } else { self.rounded(rto) };
    }

    /// The first sample.
    #[inline(never)]
    fn begin(&mut self, r: u64, nxt: u64) {
        self.srtt = r;
        self.rttvar = r / 2;
        self.mdev = r / 2;
        self.round_end = nxt;
        if self.linux {
            self.rttvar = self.rttvar.max(self.min_rto / 4);
            self.mdev_max = self.rttvar;
        }
    }

    #[inline(never)]
    fn rfc_6298(&mut self, r: u64, nxt: u64) {
        let error = r as i64 - self.srtt as i64;
        self.srtt = (self.srtt as i64 + (error >> 3)).max(1) as u64;
        let deviation = error.unsigned_abs() as i64 - self.rttvar as i64;
        self.rttvar = (self.rttvar as i64 + (deviation >> 2)) as u64;
        self.round_end = nxt;
    }

    /// Takes the RTT of a segment that was sent once for the smallest RTT of the path. An RTT of zero counts as one nanosecond, as in
    /// `sample`.
    #[inline]
    pub fn note_min(&mut self, rtt: TimeDelta) {
        self.min = self.min.min(rtt.as_nanos().max(1));
    }

    #[inline]
    fn linux_variance(&mut self, error: i64, una: u64, nxt: u64) {
        let mdev = self.mdev as i64;
        let mut deviation = error.unsigned_abs() as i64 - mdev;
        // A falling RTT is no sign of variance: an eighth of its error counts.
        if error < 0 && deviation > 0 {
            deviation >>= 3;
        }
        self.mdev = (mdev + (deviation >> 2)).max(0) as u64;
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if una >= self.round_end {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
            }
            self.round_end = nxt;
            self.mdev_max = self.min_rto / 4;
        }
    }

    #[inline(never)]
    fn rounded(&self, rto: u64) -> u64 {
        let rto = if self.granularity > 0 {
            rto.div_ceil(self.granularity).saturating_mul(self.granularity)
        } else {
            rto
        };
        rto.min(self.max_rto)
    }

    /// Doubles the time-out in force, up to the maximum.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }
    /// Takes back every doubling: the time-out was spurious (RFC 4015 section 3.2).
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
    /// Raises the time-out to three seconds: data begins after the loss of a SYN, without a sample (RFC 6298 section
    /// 5.7).
    pub fn restart_after_syn_loss(&mut self) {
        self.backoff = 0;
        self.rto = self.rounded(self.rto.max(3_000_000_000));
    }
    /// Smoothed RTT; zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> TimeDelta {
        TimeDelta::from_nanos(self.srtt)
    }
    /// Smallest RTT; zero before the first sample.
    #[inline]
    pub fn min(&self) -> TimeDelta {
        TimeDelta::from_nanos(if self.min == u64::MAX { self.srtt } else { self.min })
    }
    /// Time-out in force, with back-off.
    #[inline]
    pub fn rto(&self) -> TimeDelta {
        if self.backoff == 0 {
            return TimeDelta::from_nanos(self.rto);
        }
        TimeDelta::from_nanos(self.rto.saturating_mul(1 << self.backoff).min(self.max_rto))
    }
    /// When a time-out that is set now expires: after [`rto`](Self::rto), or, if a heartbeat drives the timers, at
    /// the beat that ends that many ticks, the present one included.
    #[inline]
    pub fn deadline(&self, now: Timestamp) -> Timestamp {
        match self.heartbeat {
            NO_HEARTBEAT => now + self.rto(),
            phase => self.beat(now, phase),
        }
    }
    /// When a timer that is set now for the near future expires: at `at`, or with a tick. It is set for whole ticks from the beginning of the
    /// present one, after 2 ms more (Linux tcp_rack_mark_lost, TCP_TIMEOUT_MIN_US), and goes off a tick later, so that it is never early (kernel/time/timer.c,
    /// calc_index).
    pub(super) fn tick_after(&self, now: Timestamp, at: Timestamp) -> Timestamp {
        if self.granularity == 0 || !at.is_set() {
            return at;
        }
        let (tick, now) = (self.granularity, now.as_nanos());
        let ticks = (at.as_nanos().saturating_sub(now) + LEAST_WAIT).div_ceil(tick) + 1;
        Timestamp::from_nanos((now / tick + ticks) * tick)
    }
    #[cold]
    fn beat(&self, now: Timestamp, phase: u64) -> Timestamp {
        let tick = self.granularity.max(1);
        let ticks = self.rto().as_nanos().div_ceil(tick).max(1);
        let begun = (now.as_nanos() + tick - phase % tick) / tick;
        Timestamp::from_nanos((begun + ticks).saturating_mul(tick).saturating_sub(tick - phase % tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> TimeDelta {
        TimeDelta::from_millis(n)
    }

    #[test]
    fn an_rtt_of_zero_counts_as_a_nanosecond() {
        let mut rtt = Rtt::new(&TcpConfig::default());
        rtt.sample(TimeDelta::ZERO, 1, 1);
        rtt.note_min(TimeDelta::ZERO);
        let nanosecond = TimeDelta::from_nanos(1);
        assert_eq!((rtt.srtt(), rtt.min()), (nanosecond, nanosecond));
    }

    #[test]
    fn rfc_6298_by_hand() {
        let config = TcpConfig {
            rto_variance: RtoVariance::Rfc6298,
            min_rto: TimeDelta::ZERO,
            ..TcpConfig::default()
        };
        let mut rtt = Rtt::new(&config);
        assert_eq!(rtt.rto(), TimeDelta::from_secs(1));
        rtt.sample(millis(100), 1, 1);
        // SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
        assert_eq!(rtt.rto(), millis(300));
        rtt.sample(millis(180), 1, 1);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(rtt.srtt(), millis(110));
        assert_eq!(rtt.rto(), millis(340));
    }

    #[test]
    fn rfc_6298_takes_one_sample_per_round_trip() {
        let config = TcpConfig { rto_variance: RtoVariance::Rfc6298, ..TcpConfig::default() };
        let mut rtt = Rtt::new(&config);
        rtt.sample(millis(100), 1, 100);
        // Still of the round trip that began with the first sample.
        rtt.sample(millis(500), 99, 150);
        assert_eq!(rtt.srtt(), millis(100));
        rtt.sample(millis(180), 100, 200);
        assert_eq!(rtt.srtt(), millis(110));
        rtt.sample(millis(500), 199, 250);
        assert_eq!(rtt.rto(), millis(340));
        let mut linux = Rtt::new(&TcpConfig::default());
        linux.sample(millis(100), 1, 100);
        linux.sample(millis(180), 2, 150);
        assert_eq!(linux.srtt(), millis(110));
    }

    #[test]
    fn the_minimum_bounds_the_variance_in_linux_and_the_sum_in_the_rfc() {
        for (variance, rto) in [(RtoVariance::Linux, 250), (RtoVariance::Rfc6298, 200)] {
            let mut rtt = Rtt::new(&TcpConfig { rto_variance: variance, ..TcpConfig::default() });
            for round in 0..200 {
                rtt.sample(millis(50), round, round + 1);
            }
            assert_eq!(rtt.rto().as_millis(), rto, "{variance:?}");
        }
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum_and_ends_with_a_sample() {
        let mut rtt = Rtt::new(&TcpConfig { max_rto: TimeDelta::from_secs(60), ..TcpConfig::default() });
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            rtt.back_off();
            assert_eq!(rtt.rto(), TimeDelta::from_secs(seconds));
        }
        rtt.sample(millis(100), 1, 1);
        assert_eq!(rtt.rto(), millis(300));
    }

    #[test]
    fn a_heartbeat_takes_the_rest_of_the_present_tick_for_the_first() {
        let mut rtt = Rtt::new(&TcpConfig {
            tick: millis(500),
            heartbeat: true,
            heartbeat_phase: millis(200),
            initial_rto: millis(3000),
            rto_variance: RtoVariance::Rfc6298,
            ..TcpConfig::default()
        });
        // Beats at 200, 700, 1200 ms. Six ticks from 750 ms on: the rest of the present one, and five more.
        assert_eq!(rtt.deadline(Timestamp::from_millis(750)), Timestamp::from_millis(3700));
        assert_eq!(rtt.deadline(Timestamp::from_millis(1199)), Timestamp::from_millis(3700));
        assert_eq!(rtt.deadline(Timestamp::from_millis(1200)), Timestamp::from_millis(4200));
        assert_eq!(rtt.deadline(Timestamp::from_millis(100)), Timestamp::from_millis(2700));
        rtt.sample(millis(100), 1, 1);
        // Two ticks.
        assert_eq!(rtt.deadline(Timestamp::from_millis(1200)), Timestamp::from_millis(2200));
    }

    #[test]
    fn granularity_rounds_up() {
        let mut rtt = Rtt::new(&TcpConfig {
            tick: millis(500),
            rto_variance: RtoVariance::Rfc6298,
            ..TcpConfig::default()
        });
        rtt.sample(millis(100), 1, 1);
        // max(G, 4 RTTVAR) = 500, plus 100, rounded up to the tick.
        assert_eq!(rtt.rto(), millis(1000));
    }
}
