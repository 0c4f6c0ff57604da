//! Congestion control that decides once per interval: what packets and acknowledgements tell is gathered here, and given to a Python object, or to
//! an agent outside the run, when the interval is over.
//!
//! An interval ends with the first acknowledgement after its time, or with a retransmission time-out. So there is always something new to
//! be told, and nothing happens between two events of the connection. The window of such an algorithm is its own in recovery, too.

use std::str::FromStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpline_core::{Rate, TimeDelta, Timestamp};
use warpline_transport::cc::{self, AckSample, CongestionControl, CongestionEvent, LostSegment, MssChange};

use crate::cc::{Object, Window};

/// What happened on a connection between two decisions. Times are in seconds, amounts in bytes, rates in bit/s.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// Its number on the connection, from 0.
    number: u64,
    /// When it began, in seconds of the run: with the last one's end, or with the first data sent.
    start: f64,
    /// When it ended, in seconds of the run.
    end: f64,
    /// Bytes sent, retransmissions included.
    sent: u64,
    /// Bytes newly acknowledged, cumulatively or selectively.
    acked: u64,
    /// Bytes taken for lost.
    lost: u64,
    /// Bytes reported congestion-experienced.
    ce: u64,
    /// Acknowledgements of new data.
    acks: u64,
    /// Mean of the RTT samples in seconds, if there were any.
    rtt: Option<f64>,
    /// Smallest of them.
    rtt_min: Option<f64>,
    /// Smoothed RTT in seconds at the end; 0.0 before the first sample.
    srtt: f64,
    /// Smallest RTT of the connection in seconds; 0.0 before the first sample.
    min_rtt: f64,
    /// The last delivery rate sample of the interval in bit/s, if there was one.
    delivery_rate: Option<f64>,
    /// Largest delivery rate sample of the connection in bit/s; 0.0 before the first.
    max_delivery_rate: f64,
    /// Bytes in flight at the end.
    in_flight: u64,
    /// Congestion window in bytes that was in force.
    cwnd: u64,
    /// Pacing rate in bit/s that was in force, if there was one.
    pacing_rate: Option<f64>,
    /// Payload size of a full segment in bytes.
    mss: u64,
    /// Whether the window limited sending at the end, and not the application or the receiver.
    cwnd_limited: bool,
    /// Whether a retransmission time-out ended it.
    timeout: bool,
}

#[pymethods]
impl Interval {
    /// For tests of an algorithm outside a run.
    #[new]
    #[pyo3(signature = (*, number = 0, start = 0.0, end = 0.0, sent = 0, acked = 0, lost = 0, ce = 0, acks = 0, rtt = None,
        rtt_min = None, srtt = 0.0, min_rtt = 0.0, delivery_rate = None, max_delivery_rate = 0.0, in_flight = 0, cwnd = 14600,
        pacing_rate = None, mss = 1460, cwnd_limited = true, timeout = false))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments, one per field")]
    fn new(
        number: u64,
        start: f64,
        end: f64,
        sent: u64,
        acked: u64,
        lost: u64,
        ce: u64,
        acks: u64,
        rtt: Option<f64>,
        rtt_min: Option<f64>,
        srtt: f64,
        min_rtt: f64,
        delivery_rate: Option<f64>,
        max_delivery_rate: f64,
        in_flight: u64,
        cwnd: u64,
        pacing_rate: Option<f64>,
        mss: u64,
        cwnd_limited: bool,
        timeout: bool,
    ) -> Self {
        Interval {
            number,
            start,
            end,
            sent,
            acked,
            lost,
            ce,
            acks,
            rtt,
            rtt_min,
            srtt,
            min_rtt,
            delivery_rate,
            max_delivery_rate,
            in_flight,
            cwnd,
            pacing_rate,
            mss,
            cwnd_limited,
            timeout,
        }
    }
    /// Its length in seconds; 0.0 if two acknowledgements came at the same time.
    #[getter]
    fn duration(&self) -> f64 {
        self.end - self.start
    }
    /// Bits acknowledged per second; 0.0 where the interval has no length.
    #[getter]
    fn throughput(&self) -> f64 {
        let duration = self.duration();
        if duration > 0.0 { self.acked as f64 * 8.0 / duration } else { 0.0 }
    }
    /// Share of the bytes of which something was learnt that were taken for lost, 0 to 1.
    #[getter]
    fn loss(&self) -> f64 {
        let known = self.acked + self.lost;
        if known > 0 { self.lost as f64 / known as f64 } else { 0.0 }
    }
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl Interval {
    /// The same, but lasting until `end`, in seconds of the run.
    pub(crate) fn until(self, end: f64) -> Interval {
        Interval { end, ..self }
    }
}

/// How often there is a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Every {
    /// At every acknowledgement.
    Ack,
    /// After a time.
    Time(TimeDelta),
    /// After so many smoothed round-trip times.
    RoundTrips(f64),
}

impl FromStr for Every {
    type Err = PyErr;
    /// Reads "ack", "10ms", "1rtt".
    fn from_str(text: &str) -> Result<Self, PyErr> {
        let word = text.trim();
        let read = match word.strip_suffix("rtt") {
            _ if word == "ack" => Some(Every::Ack),
            Some(number) => number.trim().parse().ok().map(Every::RoundTrips),
            None => word.parse().ok().map(Every::Time),
        };
        match read {
            Some(Every::Time(span)) if span.is_zero() => None,
            Some(Every::RoundTrips(count)) if !(count > 0.0 && count.is_finite()) => None,
            read => read,
        }
        .ok_or_else(|| {
            PyValueError::new_err(format!(
                "`every` is {text:?}; it is \"ack\", a time above 0 such as \"10ms\", or a number of round-trip times above 0 such as \"1rtt\""
            ))
        })
    }
}

/// What is counted in one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    acked: u64,
    lost: u64,
    ce: u64,
    acks: u64,
    rtts: u64,
    rtt_nanos: u128,
    rtt_min: Option<TimeDelta>,
    delivery_rate: Option<Rate>,
}

/// Gathers intervals of one connection.
#[derive(Debug)]
struct Meter {
    every: Every,
    mss: u64,
    number: u64,
    /// When the interval began; nothing before the first data.
    start: Option<Timestamp>,
    /// When something last happened.
    last: Timestamp,
    counts: Counts,
    srtt: TimeDelta,
    min_rtt: TimeDelta,
    max_delivery_rate: Rate,
    in_flight: u64,
    cwnd_limited: bool,
}

impl Meter {
    fn new(every: Every, mss: u64) -> Meter {
        Meter {
            every,
            mss,
            number: 0,
            start: None,
            last: Timestamp::ZERO,
            counts: Counts::default(),
            srtt: TimeDelta::ZERO,
            min_rtt: TimeDelta::ZERO,
            max_delivery_rate: Rate::from_bps(0),
            in_flight: 0,
            cwnd_limited: true,
        }
    }

    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        self.start.get_or_insert(now);
        self.last = now;
        self.counts.sent += bytes;
        self.in_flight = in_flight;
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.last = ack.now;
        (self.srtt, self.min_rtt) = (ack.srtt, ack.min_rtt);
        (self.in_flight, self.cwnd_limited, self.mss) = (ack.in_flight, ack.cwnd_limited, ack.mss);
        let counts = &mut self.counts;
        counts.acks += 1;
        counts.acked += ack.acked;
        counts.ce += ack.ce;
        if let Some(rtt) = ack.rtt {
            counts.rtts += 1;
            counts.rtt_nanos += u128::from(rtt.as_nanos());
            counts.rtt_min = Some(counts.rtt_min.map_or(rtt, |least| least.min(rtt)));
        }
        if let Some(rate) = ack.delivery_rate {
            counts.delivery_rate = Some(rate);
            self.max_delivery_rate = self.max_delivery_rate.max(rate);
        }
    }

    /// Whether the interval's time has passed.
    fn is_over(&self) -> bool {
        let passed = self.start.map_or(TimeDelta::ZERO, |start| self.last - start);
        match self.every {
            Every::Ack => true,
            Every::Time(span) => passed >= span,
            Every::RoundTrips(count) => passed >= self.srtt.mul_f64(count),
        }
    }

    /// Ends the interval, in which `window` was in force, and begins the next one.
    fn end(&mut self, window: &Window, timeout: bool) -> Interval {
        let counts = std::mem::take(&mut self.counts);
        let start = self.start.replace(self.last).unwrap_or(self.last);
        let number = self.number;
        self.number += 1;
        let mean = |sum: u128| sum as f64 / counts.rtts as f64 / 1e9;
        Interval {
            number,
            start: start.as_secs_f64(),
            end: self.last.as_secs_f64(),
            sent: counts.sent,
            acked: counts.acked,
            lost: counts.lost,
            ce: counts.ce,
            acks: counts.acks,
            rtt: (counts.rtts > 0).then(|| mean(counts.rtt_nanos)),
            rtt_min: counts.rtt_min.map(TimeDelta::as_secs_f64),
            srtt: self.srtt.as_secs_f64(),
            min_rtt: self.min_rtt.as_secs_f64(),
            delivery_rate: counts.delivery_rate.map(|rate| rate.as_bps() as f64),
            max_delivery_rate: self.max_delivery_rate.as_bps() as f64,
            in_flight: self.in_flight,
            cwnd: window.cwnd,
            pacing_rate: window.pacing_rate.map(|rate| rate.as_bps() as f64),
            mss: self.mss,
            cwnd_limited: self.cwnd_limited,
            timeout,
        }
    }
}

/// What decides on the window.
pub(crate) trait Decide: std::fmt::Debug + Send {
    /// The window from here on; nothing to keep the one in force.
    fn decide(&mut self, interval: Interval) -> Option<Window>;
    /// The window after a change of the segment size; nothing for as many segments as before.
    fn on_mss(&mut self, change: &MssChange) -> Option<Window> {
        let _ = change;
        None
    }
    /// The connection is no more; `rest` is the interval that had not ended.
    fn finish(&mut self, rest: Interval) {
        let _ = rest;
    }
}

impl Decide for Object {
    fn decide(&mut self, interval: Interval) -> Option<Window> {
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_interval"), (interval,)))
    }
    fn on_mss(&mut self, change: &MssChange) -> Option<Window> {
        Object::on_mss(self, change)
    }
}

/// The congestion control of one end of a connection that decides once per interval.
#[derive(Debug)]
pub(crate) struct Gathered<D: Decide> {
    meter: Meter,
    window: Window,
    decides: D,
}

impl<D: Decide> Gathered<D> {
    /// One that begins with `window`.
    pub(crate) fn new(every: Every, config: &cc::CcConfig, window: Window, decides: D) -> Self {
        Gathered { meter: Meter::new(every, config.mss), window, decides }
    }

    fn decide(&mut self, timeout: bool) {
        let interval = self.meter.end(&self.window, timeout);
        if let Some(window) = self.decides.decide(interval) {
            self.window = window;
        }
    }
}

impl<D: Decide> Drop for Gathered<D> {
    fn drop(&mut self) {
        // The end of a connection that only receives has nothing to tell.
        if self.meter.start.is_some() {
            let rest = self.meter.end(&self.window, false);
            self.decides.finish(rest);
        }
    }
}

impl<D: Decide> CongestionControl for Gathered<D> {
    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        self.meter.on_sent(now, bytes, in_flight);
    }
    fn on_lost(&mut self, lost: &LostSegment) {
        self.meter.last = lost.now;
        self.meter.counts.lost += lost.bytes;
    }
    fn on_ack(&mut self, ack: &AckSample) {
        self.meter.on_ack(ack);
        if self.meter.is_over() {
            self.decide(false);
        }
    }
    fn on_congestion_event(&mut self, _: &CongestionEvent) {}
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.meter.last = event.now;
        self.meter.in_flight = event.in_flight;
        self.decide(true);
    }
    fn undo(&mut self, _: Timestamp) {}
    fn governs_recovery(&self) -> bool {
        true
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.meter.mss = change.after.mss;
        let cwnd = change.window(self.window.cwnd);
        let scaled = Window { cwnd, ssthresh: cwnd, ..self.window };
        self.window = self.decides.on_mss(change).unwrap_or(scaled);
    }
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate
    }
    fn paces_payload(&self) -> bool {
        true
    }
    fn name(&self) -> &'static str {
        "custom"
    }
}
