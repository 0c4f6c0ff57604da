//! A run in steps: it goes on up to the next decision of one congestion control, and waits for the window that the caller sets.
//!
//! It is an ordinary run, in a thread that never holds the interpreter. At the end of an interval the congestion control hands over what the
//! interval was like, and waits. So what an agent meets here is what the same congestion control meets in any other run, be it a simulation,
//! with guests or live; and several such runs use several cores while Python waits for all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::{self, Broken, CcFactory, CustomCc, RunOptions};
use warpline_net::Control;
use warpline_scenario::Scenario as Inner;

use crate::cc::Window;
use crate::errors::run_error;
use crate::interval::{Decide, Every, Gathered, Interval};
use crate::run::scenario_seed;
use crate::scenario::Scenario;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// How long to wait before looking for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(50);

/// What the run's thread tells.
#[derive(Debug)]
enum Message {
    /// An interval is over, and the run waits for a window.
    Decision(Interval),
    /// The interval that had not ended when the run did.
    Rest(Interval),
    /// The run has ended: so many seconds have passed in it, or why it failed.
    Ended(Result<f64, AnyError>),
}

/// The end of the two channels that is in the run. All connections of the flow share it.
#[derive(Clone, Debug)]
struct HandOver {
    messages: Sender<Message>,
    windows: Arc<Mutex<Receiver<Window>>>,
}

impl Decide for HandOver {
    fn decide(&mut self, interval: Interval) -> Option<Window> {
        self.messages.send(Message::Decision(interval)).ok()?;
        // The other end is gone when the run is closed; it then ends soon.
        lock(&self.windows).recv().ok()
    }
    fn finish(&mut self, rest: Interval) {
        // Nobody may be listening any more.
        let _ = self.messages.send(Message::Rest(rest));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller's end.
#[derive(Debug)]
struct Ends {
    messages: Receiver<Message>,
    windows: Sender<Window>,
    thread: JoinHandle<()>,
    /// The interval that had not ended when its connection did.
    rest: Option<Interval>,
}

/// A run in steps. People use `warpline.gym`, which is built on this.
#[pyclass(frozen, module = "warpline._warpline")]
#[derive(Debug)]
pub(crate) struct NativeSteps {
    /// None when it has ended.
    ends: Mutex<Option<Ends>>,
    stop: Arc<AtomicBool>,
    duration: f64,
    /// The process that has the thread. One that forks from it has this object, too, but no thread to wait for.
    process: u32,
}

#[pymethods]
impl NativeSteps {
    /// Starts a run whose flows with the custom congestion control `name` are controlled by the caller, who decides once per `every`.
    #[new]
    #[pyo3(signature = (scenario, *, name, every, seed = None, pacing_rate = None))]
    fn new(
        scenario: &Scenario,
        name: String,
        every: &str,
        seed: Option<u64>,
        pacing_rate: Option<f64>,
    ) -> PyResult<Self> {
        let every: Every = every.parse()?;
        let pacing_rate = Window::checked("the run", 1.0, 0.0, pacing_rate)?.pacing_rate;
        let mut inner = scenario.0.clone();
        inner.seed = seed.map_or(Ok(inner.seed), scenario_seed)?;
        let duration = inner.duration.0.as_secs_f64();
        let (messages, from_run) = channel();
        let (windows, to_run) = channel();
        let hand_over = HandOver { messages: messages.clone(), windows: Arc::new(Mutex::new(to_run)) };
        let factory: CcFactory = Arc::new(move |config| {
            let initial = Window::initial(config);
            let window = Window { ssthresh: initial.cwnd, pacing_rate, ..initial };
            Box::new(Gathered::new(every, config, window, hand_over.clone()))
        });
        let custom_cc = CustomCc(BTreeMap::from([(name, factory)]));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("warpline-steps".to_owned()).spawn(move || {
            let ended = drive(&inner, custom_cc, &stopped);
            let _ = messages.send(Message::Ended(ended));
        })?;
        let ends = Ends { messages: from_run, windows, thread, rest: None };
        Ok(NativeSteps { ends: Mutex::new(Some(ends)), stop, duration, process: std::process::id() })
    }

    /// Lets the run go on with this window in bytes, and pacing rate in bit/s if there is one.
    #[pyo3(signature = (cwnd, pacing_rate = None))]
    fn send(&self, cwnd: f64, pacing_rate: Option<f64>) -> PyResult<()> {
        let window = Window::checked("the action", cwnd, cwnd, pacing_rate)?;
        match &*lock(&self.ends) {
            Some(ends) if ends.windows.send(window).is_ok() => Ok(()),
            _ => Err(over()),
        }
    }

    /// Waits for the next decision. Returns the interval before it, and None; or, when the run has ended, the interval that was cut short, if
    /// there is one, and how many seconds of the run have passed. Ctrl-C ends the wait.
    fn receive(&self, py: Python<'_>) -> PyResult<(Option<Interval>, Option<f64>)> {
        loop {
            let received = py.detach(|| {
                let mut guard = lock(&self.ends);
                let ends = guard.as_mut()?;
                let message = ends.messages.recv_timeout(GLANCE);
                if let Ok(Message::Rest(rest)) = message {
                    ends.rest = Some(rest);
                }
                Some(message)
            });
            match received.ok_or_else(over)? {
                Ok(Message::Decision(interval)) => return Ok((Some(interval), None)),
                Ok(Message::Rest(_)) => {}
                Ok(Message::Ended(ended)) => {
                    let rest = py.detach(|| self.end());
                    let end = ended.map_err(|error| run_error(py, &*error))?;
                    return Ok((rest.map(|rest| rest.until(end)), Some(end)));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    py.detach(|| self.end());
                    return Err(PyRuntimeError::new_err("the run's thread has ended without a result"));
                }
            }
        }
    }

    /// Duration of the run in seconds, as its scenario has it.
    #[getter]
    fn duration(&self) -> f64 {
        self.duration
    }

    /// Ends the run, if it has not ended yet.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

impl NativeSteps {
    /// Stops the run if it has not ended, and waits for its thread. Returns the interval that was cut short.
    fn end(&self) -> Option<Interval> {
        self.stop.store(true, Ordering::Relaxed);
        let Ends { messages: _messages, windows, thread, rest } = lock(&self.ends).take()?;
        // A congestion control that waits for a window gets none, and goes on with the one that it has.
        drop(windows);
        // A panic has printed its message.
        let _ = thread.join();
        rest
    }
}

impl Drop for NativeSteps {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.end();
        } else {
            std::mem::forget(self.ends.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Runs a scenario to its end, or until `stop` is set. Returns how many seconds have passed in the run.
fn drive(scenario: &Inner, custom_cc: CustomCc, stop: &AtomicBool) -> Result<f64, AnyError> {
    let options = RunOptions { custom_cc, cores: Cores::One, ..RunOptions::default() };
    let observe = &mut |_: &run::Progress| match stop.load(Ordering::Relaxed) {
        true => Control::Stop,
        false => Control::Continue,
    };
    let outcome = run::run(scenario, &options, observe)?;
    match outcome.summary.info.stopped {
        Some(reason) if !stop.load(Ordering::Relaxed) => {
            let broken =
                outcome.broken.map(|(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why))| why);
            let why: Vec<String> = broken.into_iter().chain(outcome.failures).collect();
            Err(format!("the run ended early: {reason}\n{}", why.join("\n")).into())
        }
        _ => Ok(outcome.summary.info.simulated_s),
    }
}

fn over() -> PyErr {
    PyRuntimeError::new_err("the run has ended")
}
