//! `warpline run --json-stream`: what happens in a run, as lines of JSON on standard output while it goes on.
//!
//! Nothing in them depends on the machine's time, but for the last line, which says where the results are. A thread of its own writes them: a
//! reader that waits does not hold up a run on the real clock.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};
use warpline_core::TimeDelta;
use warpline_lab::run::RunOutcome;
use warpline_lab::run::watch::{Sample, Watch};
use warpline_results::period::Period;
use warpline_results::{FlowSample, LinkSample};
use warpline_scenario::Scenario;

use crate::failure::Failure;
use crate::watched::Watched;

/// Sends lines to the thread that writes them.
#[derive(Debug)]
pub(crate) struct Stream {
    /// A line, or nothing at the end.
    lines: Sender<Option<String>>,
    watched: Watched,
    period: TimeDelta,
    open: Mutex<Open>,
}

/// The period that has not ended.
#[derive(Debug)]
struct Open {
    flows: Period,
    links: Period,
    /// The last sample's time, and the run's duration.
    last: (TimeDelta, TimeDelta),
    /// Whether there is something in it.
    begun: bool,
    end: TimeDelta,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writing(JoinHandle<io::Result<()>>);

/// Writes lines as they come. A reader that has closed the pipe is not an error: the run goes on, and nobody hears of it.
fn write(lines: &Receiver<Option<String>>) -> io::Result<()> {
    while let Ok(Some(line)) = lines.recv() {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Stream {
    /// Begins the stream of a run, with a line for each `period` of the run's time.
    pub(crate) fn begin(scenario: &Scenario, period: TimeDelta) -> (Arc<Stream>, Writing) {
        let (lines, received) = channel();
        let writing = Writing(std::thread::spawn(move || write(&received)));
        let open = Open {
            flows: Period::default(),
            links: Period::default(),
            last: (TimeDelta::ZERO, scenario.duration.0),
            begun: false,
            end: period,
        };
        let stream = Stream { lines, watched: Watched::new(scenario), period, open: Mutex::new(open) };
        stream.line(&json!({
            "event": "begin",
            "scenario": stream.watched.scenario,
            "scenario_hash": scenario.scenario_hash(),
            "seed": stream.watched.seed,
            "clock": stream.watched.clock,
            "duration_s": scenario.duration.0.as_secs_f64(),
            "warmup_s": scenario.warmup.0.as_secs_f64(),
            "period_s": period.as_secs_f64(),
        }));
        (Arc::new(stream), writing)
    }

    fn line(&self, value: &Value) {
        // If nobody writes any more, nobody reads.
        let _ = self.lines.send(Some(format!("{value}\n")));
    }

    /// Writes what has been collected, and begins the next period.
    fn close_period(&self, open: &mut Open) {
        open.begun = false;
        let (time, duration) = open.last;
        let share = time.as_secs_f64() / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        self.line(&json!({ "event": "progress", "time_s": time.as_secs_f64(), "share": share.min(1.0) }));
        let row = |name: String, row: Map<String, Value>| {
            let mut named = Map::new();
            named.insert("name".to_owned(), name.into());
            named.extend(row);
            Value::Object(named)
        };
        let flows = open.flows.take::<FlowSample>().into_iter();
        let flows: Vec<Value> =
            flows.map(|(flow, object)| row(self.watched.flow_name(flow), object)).collect();
        let links = open.links.take::<LinkSample>().into_iter();
        let links: Vec<Value> =
            links.map(|(link, object)| row(self.watched.link_name(link), object)).collect();
        self.line(
            &json!({ "event": "interval", "time_s": time.as_secs_f64(), "flows": flows, "links": links }),
        );
    }

    /// Ends the stream with the run's results, and where they are.
    pub(crate) fn end(&self, outcome: &RunOutcome, directory: Option<&Path>, report: Option<&Path>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.begun {
            self.close_period(&mut open);
        }
        self.line(&json!({ "event": "end", "complete": outcome.complete, "summary": outcome.summary }));
        self.line(&json!({ "event": "written", "directory": directory, "report": report }));
        let _ = self.lines.send(None);
    }

    /// Ends the stream of a run that has no results.
    pub(crate) fn fail(&self, failure: &Failure) {
        self.line(&json!({ "event": "error", "message": failure.message() }));
        let _ = self.lines.send(None);
    }
}

impl Writing {
    /// Waits until everything is written.
    ///
    /// # Errors
    /// If it could not be, other than because the reader has gone.
    pub(crate) fn wait(self) -> Result<(), Failure> {
        match self.0.join() {
            Ok(Err(error)) => Err(Failure::output(format!("cannot write to standard output: {error}"))),
            _ => Ok(()),
        }
    }
}

impl Watch for Stream {
    fn sample(&self, sample: &Sample<'_>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.flows.add(sample.flows);
        open.links.add(sample.links);
        (open.last, open.begun) = ((sample.time, sample.duration), true);
        if sample.time >= open.end {
            let period = self.period.as_nanos().max(1);
            open.end = TimeDelta::from_nanos((sample.time.as_nanos() / period + 1).saturating_mul(period));
            self.close_period(&mut open);
        }
    }
}
