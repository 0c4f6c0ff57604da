//! A congestion control written in Python: each call of the trait goes to a Python object, whose window is then read.
//! One that decides once per interval is in `interval.rs`; `custom.rs` makes both.
//!
//! The interpreter is held for one call only. After every call the object's `cwnd`, `ssthresh` and `pacing_rate` are
//! read, checked and kept, so that the connection can read the window often at no cost. [`Failure`] keeps the first
//! exception or invalid window. From then on the object is not called, and the window stays as it was until the run stops.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use warpline_core::{Rate, TimeDelta, Timestamp};
use warpline_transport::cc::{self, CongestionControl, MssChange, Phase};

/// The first error raised by Python code that a run called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Keeps an error, unless there is an earlier one.
    pub(crate) fn set(&self, error: PyErr) {
        self.slot().get_or_insert(error);
    }
    /// Whether something has failed.
    pub(crate) fn is_set(&self) -> bool {
        self.slot().is_some()
    }
    /// Takes the error out.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.slot().take()
    }
}

/// What a congestion control receives when its connection starts.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CcConfig {
    /// Payload size of a full segment in bytes.
    mss: u64,
    /// Initial window in bytes.
    initial_window: u64,
    /// Initial slow-start threshold in bytes; `math.inf` for none.
    initial_ssthresh: f64,
}

#[pymethods]
impl CcConfig {
    /// For tests of an algorithm outside a run.
    #[new]
    #[pyo3(signature = (mss = 1460, initial_window = 14600, initial_ssthresh = f64::INFINITY))]
    fn new(mss: u64, initial_window: u64, initial_ssthresh: f64) -> Self {
        CcConfig { mss, initial_window, initial_ssthresh }
    }
    fn __repr__(&self) -> String {
        let CcConfig { mss, initial_window, initial_ssthresh } = self;
        format!("CcConfig(mss={mss}, initial_window={initial_window}, initial_ssthresh={initial_ssthresh})")
    }
}

/// What an acknowledgement tells a congestion control. Times are in seconds, amounts in bytes.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    /// When it was processed, in seconds of the run.
    now: f64,
    /// Bytes newly acknowledged, cumulatively or selectively.
    acked: u64,
    /// Payload size of a full segment in bytes.
    mss: u64,
    /// RTT sample in seconds, if this acknowledgement gave one.
    rtt: Option<f64>,
    /// Smoothed RTT in seconds; 0.0 before the first sample.
    srtt: f64,
    /// Smallest RTT of the connection in seconds; 0.0 before the first sample.
    min_rtt: f64,
    /// One-way delay in seconds with an unknown constant offset, if timestamps are in use.
    one_way_delay: Option<f64>,
    /// Delivery rate in bit/s, if known.
    delivery_rate: Option<f64>,
    /// Bytes delivered over the connection so far.
    delivered: u64,
    /// Bytes delivered when the newest segment acknowledged here was sent.
    prior_delivered: u64,
    /// Bytes in flight before this acknowledgement.
    prior_in_flight: u64,
    /// Bytes in flight after it.
    in_flight: u64,
    /// Next byte to be sent.
    next_seq: u64,
    /// Cumulative acknowledgement.
    ack: u64,
    /// Bytes reported congestion-experienced by this acknowledgement.
    ce: u64,
    /// Whether the window, and not the application or the receiver, limited sending; it must not grow otherwise.
    cwnd_limited: bool,
    /// State of the connection: "open", "disorder", "cwr", "recovery" or "loss". The window must not grow in "cwr" and
    /// "recovery".
    phase: &'static str,
}

/// A reason to reduce the window. Times are in seconds, amounts in bytes.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionEvent {
    /// When, in seconds of the run.
    now: f64,
    /// What showed the congestion: "dup_acks", "rack", "rto" or "ecn".
    trigger: &'static str,
    /// Bytes in flight at that moment.
    in_flight: u64,
    /// Payload size of a full segment in bytes.
    mss: u64,
    /// Smallest RTT of the connection in seconds; 0.0 before the first sample.
    min_rtt: f64,
    /// Smoothed RTT in seconds; 0.0 before the first sample.
    srtt: f64,
}

#[pymethods]
impl AckSample {
    /// For tests of an algorithm outside a run.
    #[new]
    #[pyo3(signature = (*, now = 0.0, acked = 1460, mss = 1460, rtt = None, srtt = 0.0, min_rtt = 0.0, one_way_delay = None,
        delivery_rate = None, delivered = 0, prior_delivered = 0, prior_in_flight = 0, in_flight = 0, next_seq = 0, ack = 0,
        ce = 0, cwnd_limited = true, phase = "open"))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments, one per field")]
    fn new(
        now: f64,
        acked: u64,
        mss: u64,
        rtt: Option<f64>,
        srtt: f64,
        min_rtt: f64,
        one_way_delay: Option<f64>,
        delivery_rate: Option<f64>,
        delivered: u64,
        prior_delivered: u64,
        prior_in_flight: u64,
        in_flight: u64,
        next_seq: u64,
        ack: u64,
        ce: u64,
        cwnd_limited: bool,
        phase: &str,
    ) -> PyResult<Self> {
        let phases = [Phase::Open, Phase::Disorder, Phase::Cwr, Phase::Recovery, Phase::Loss].map(phase_name);
        let phase = one_of("phase", phase, &phases)?;
        Ok(AckSample {
            now,
            acked,
            mss,
            rtt,
            srtt,
            min_rtt,
            one_way_delay,
            delivery_rate,
            delivered,
            prior_delivered,
            prior_in_flight,
            in_flight,
            next_seq,
            ack,
            ce,
            cwnd_limited,
            phase,
        })
    }
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

#[pymethods]
impl CongestionEvent {
    /// For tests of an algorithm outside a run.
    #[new]
    #[pyo3(signature = (*, now = 0.0, trigger = "dup_acks", in_flight = 0, mss = 1460, min_rtt = 0.0, srtt = 0.0))]
    fn new(now: f64, trigger: &str, in_flight: u64, mss: u64, min_rtt: f64, srtt: f64) -> PyResult<Self> {
        let trigger = one_of("trigger", trigger, &["dup_acks", "rack", "rto", "ecn"])?;
        Ok(CongestionEvent { now, trigger, in_flight, mss, min_rtt, srtt })
    }
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

fn one_of(what: &str, word: &str, allowed: &[&'static str]) -> PyResult<&'static str> {
    allowed.iter().find(|known| **known == word).copied().ok_or_else(|| {
        PyValueError::new_err(format!("{what} is {word:?}; it is one of {}", allowed.join(", ")))
    })
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Open => "open",
        Phase::Disorder => "disorder",
        Phase::Cwr => "cwr",
        Phase::Recovery => "recovery",
        Phase::Loss => "loss",
    }
}

impl From<&cc::CcConfig> for CcConfig {
    fn from(config: &cc::CcConfig) -> Self {
        CcConfig {
            mss: config.mss,
            initial_window: config.initial_window,
            initial_ssthresh: threshold(config.initial_ssthresh),
        }
    }
}

/// A threshold in Python's terms: infinity stands for "unset".
fn threshold(bytes: u64) -> f64 {
    if bytes == u64::MAX { f64::INFINITY } else { bytes as f64 }
}

impl From<&cc::AckSample> for AckSample {
    fn from(ack: &cc::AckSample) -> Self {
        AckSample {
            now: ack.now.as_secs_f64(),
            acked: ack.acked,
            mss: ack.mss,
            rtt: ack.rtt.map(TimeDelta::as_secs_f64),
            srtt: ack.srtt.as_secs_f64(),
            min_rtt: ack.min_rtt.as_secs_f64(),
            one_way_delay: ack.one_way_delay.map(TimeDelta::as_secs_f64),
            delivery_rate: ack.delivery_rate.map(|rate| rate.as_bps() as f64),
            delivered: ack.delivered,
            prior_delivered: ack.prior_delivered,
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            next_seq: ack.next_seq,
            ack: ack.ack,
            ce: ack.ce,
            cwnd_limited: ack.cwnd_limited,
            phase: phase_name(ack.phase),
        }
    }
}

impl From<&cc::CongestionEvent> for CongestionEvent {
    fn from(event: &cc::CongestionEvent) -> Self {
        CongestionEvent {
            now: event.now.as_secs_f64(),
            trigger: event.trigger.name(),
            in_flight: event.in_flight,
            mss: event.mss,
            min_rtt: event.min_rtt.as_secs_f64(),
            srtt: event.srtt.as_secs_f64(),
        }
    }
}

/// The window of a Python algorithm, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) pacing_rate: Option<Rate>,
}

/// Larger windows count as this one, in bytes: the limit of the built-in algorithms, above every receiver window.
const MAX_WINDOW: f64 = (1u64 << 50) as f64;

impl Window {
    /// That of a new connection.
    pub(crate) fn initial(config: &cc::CcConfig) -> Window {
        Window { cwnd: config.initial_window.max(1), ssthresh: config.initial_ssthresh, pacing_rate: None }
    }

    /// Checks a window and a pacing rate in Python's terms; `owner` is what messages call the algorithm.
    pub(crate) fn checked(
        owner: &str,
        cwnd: f64,
        ssthresh: f64,
        pacing_rate: Option<f64>,
    ) -> PyResult<Window> {
        let invalid = |name: &str, value: f64, allowed: &str| {
            let value = if value.is_nan() { "not a number (NaN)".to_owned() } else { value.to_string() };
            Err(PyValueError::new_err(format!("{owner}.{name} is {value}; it must be {allowed}")))
        };
        if !(1.0..=f64::MAX).contains(&cwnd) {
            return invalid("cwnd", cwnd, CWND_RANGE);
        }
        if ssthresh.is_nan() || ssthresh < 0.0 {
            return invalid("ssthresh", ssthresh, SSTHRESH_RANGE);
        }
        let pacing_rate = match pacing_rate {
            Some(bps) if !(bps >= 1.0 && bps.is_finite()) => return invalid("pacing_rate", bps, RATE_RANGE),
            rate => rate.map(|bps| Rate::from_bps(bps as u64)),
        };
        let ssthresh = if ssthresh >= MAX_WINDOW { u64::MAX } else { ssthresh as u64 };
        Ok(Window { cwnd: cwnd.min(MAX_WINDOW) as u64, ssthresh, pacing_rate })
    }

    /// Reads and checks the object's attributes.
    pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Window> {
        let py = object.py();
        let class = || object.get_type().name().map_or_else(|_| "the object".to_owned(), |n| n.to_string());
        let number = |value: &Bound<'_, PyAny>, name: &str, allowed: &str| -> PyResult<f64> {
            // Any number will do: an int, a float, one of numpy's.
            value.extract().map_err(|_| {
                let kind = value
                    .get_type()
                    .name()
                    .map_or_else(|_| "not a number".to_owned(), |n| format!("of type {n}"));
                PyTypeError::new_err(format!("{}.{name} is {kind}; it must be {allowed}", class()))
            })
        };
        let cwnd = number(&object.getattr(pyo3::intern!(py, "cwnd"))?, "cwnd", CWND_RANGE)?;
        let ssthresh = number(&object.getattr(pyo3::intern!(py, "ssthresh"))?, "ssthresh", SSTHRESH_RANGE)?;
        let rate = object.getattr(pyo3::intern!(py, "pacing_rate"))?;
        let rate = if rate.is_none() { None } else { Some(number(&rate, "pacing_rate", RATE_RANGE)?) };
        Window::checked(&class(), cwnd, ssthresh, rate)
    }
}

const CWND_RANGE: &str = "a finite number of bytes, 1 or more (below one segment is allowed)";
const SSTHRESH_RANGE: &str = "a number of bytes from 0 up; math.inf stands for no threshold";
const RATE_RANGE: &str = "None or a finite number of bits per second above 0";

/// The Python object of one end of a connection.
#[derive(Debug)]
pub(crate) struct Object {
    object: Py<PyAny>,
    failure: Failure,
}

impl Object {
    /// That of one end; its first exception goes to `failure`.
    pub(crate) fn new(object: &Bound<'_, PyAny>, failure: &Failure) -> Object {
        Object { object: object.clone().unbind(), failure: failure.clone() }
    }

    /// Calls the object, then reads its window. Nothing if that failed, now or before.
    pub(crate) fn call(
        &self,
        call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Option<Window> {
        if self.failure.is_set() {
            return None;
        }
        let called = Python::attach(|py| {
            let object = self.object.bind(py);
            call(object)?;
            Window::read(object)
        });
        called.map_err(|error| self.failure.set(error)).ok()
    }

    /// Tells it of another segment size.
    pub(crate) fn on_mss(&self, change: &MssChange) -> Option<Window> {
        let sizes = (CcConfig::from(&change.before), CcConfig::from(&change.after));
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_mss"), sizes))
    }
}

/// One connection's congestion control in Python.
#[derive(Debug)]
pub(crate) struct PyCongestionControl {
    /// `None` if the constructor failed.
    object: Option<Object>,
    window: Window,
    /// Whether the class overrides `on_sent`. That of the base class does nothing, so the call per packet is saved.
    wants_sent: bool,
}

impl PyCongestionControl {
    /// One that calls `object`, and begins with `window`.
    pub(crate) fn new(object: Object, window: Window, wants_sent: bool) -> Self {
        PyCongestionControl { object: Some(object), window, wants_sent }
    }

    /// One without an object: its window stays as it is in a new connection.
    pub(crate) fn idle(config: &cc::CcConfig) -> Self {
        PyCongestionControl { object: None, window: Window::initial(config), wants_sent: false }
    }

    /// Calls the object, and keeps the window that it has then.
    fn call(&mut self, call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>) {
        if let Some(window) = self.object.as_ref().and_then(|object| object.call(call)) {
            self.window = window;
        }
    }
}

/// Seconds as Python takes them.
fn seconds<'py>(py: Python<'py>, now: Timestamp) -> Bound<'py, PyFloat> {
    PyFloat::new(py, now.as_secs_f64())
}

impl CongestionControl for PyCongestionControl {
    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        if self.wants_sent {
            self.call(|o| {
                o.call_method1(pyo3::intern!(o.py(), "on_sent"), (seconds(o.py(), now), bytes, in_flight))
            });
        }
    }
    fn on_ack(&mut self, ack: &cc::AckSample) {
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_ack"), (AckSample::from(ack),)));
    }
    fn on_congestion_event(&mut self, event: &cc::CongestionEvent) {
        let event = CongestionEvent::from(event);
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_congestion_event"), (event,)));
    }
    fn on_rto(&mut self, event: &cc::CongestionEvent) {
        let event = CongestionEvent::from(event);
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_rto"), (event,)));
    }
    fn on_recovery_exit(&mut self, now: Timestamp) {
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "on_recovery_exit"), (seconds(o.py(), now),)));
    }
    fn undo(&mut self, now: Timestamp) {
        self.call(|o| o.call_method1(pyo3::intern!(o.py(), "undo"), (seconds(o.py(), now),)));
    }
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.call(|o| {
            let arguments = (seconds(o.py(), now), idle.as_secs_f64(), rto.as_secs_f64());
            o.call_method1(pyo3::intern!(o.py(), "on_idle"), arguments)
        });
    }
    fn on_mss(&mut self, change: &MssChange) {
        if let Some(window) = self.object.as_ref().and_then(|object| object.on_mss(change)) {
            self.window = window;
        }
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
    fn name(&self) -> &'static str {
        "custom"
    }
}
