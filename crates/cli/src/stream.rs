//! `warpline run --json-stream`: what happens in a run, as lines of JSON on standard output while it goes on.
//!
//! Nothing in them depends on the machine's time, but for the last line, which says where the results are. A thread of its own makes and writes
//! them. A simulation waits for a slow reader, as any program does that writes to a pipe. A run on the real clock does not.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};
use warpline_core::TimeDelta;
use warpline_lab::run::RunOutcome;
use warpline_lab::run::watch::{Sample, Watch};
use warpline_results::period::Period;
use warpline_results::{FlowSample, LinkSample};
use warpline_scenario::{ClockMode, Scenario};

use crate::failure::Failure;
use crate::output;
use crate::watched::Watched;

/// So many messages wait for the thread that writes.
const WAITING: usize = 1024;

/// The time between two lines about flows and links, unless another is wished, or the least above it that the samples allow.
const PERIOD: TimeDelta = TimeDelta::from_secs(1);

/// The time between two lines about flows and links: a whole number of the intervals at whose ends there are samples.
///
/// # Errors
/// If what is `wished` is none, with the nearest that are.
pub(crate) fn period(scenario: &Scenario, wished: Option<TimeDelta>) -> Result<TimeDelta, String> {
    let interval = scenario.sample_interval.0;
    let Some(wished) = wished else {
        return Ok(interval.saturating_mul(PERIOD.as_nanos().div_ceil(interval.as_nanos().max(1))));
    };
    let below = wished.as_nanos() / interval.as_nanos().max(1);
    let nearest = [below, below + 1].map(|count| interval.saturating_mul(count));
    match nearest {
        [least, _] if below > 0 && least == wished => Ok(wished),
        [_, first] if below == 0 => Err(told(wished, interval, &first.to_string())),
        [least, next] => Err(told(wished, interval, &format!("{least} or {next}"))),
    }
}

/// The message that `wished` is no whole number of intervals, and what would be.
fn told(wished: TimeDelta, interval: TimeDelta, nearest: &str) -> String {
    format!(
        "--period {wished} is not a whole number of intervals (`sample_interval`, {interval}); write {nearest}"
    )
}

/// What the thread gets.
#[derive(Debug)]
enum Message {
    /// The samples of an interval, its end by the run's time, and the run's duration.
    Samples { time: TimeDelta, duration: TimeDelta, flows: Vec<FlowSample>, links: Vec<LinkSample> },
    /// The last lines.
    End(Vec<Value>),
}

/// Hands what happens to the thread that writes.
#[derive(Debug)]
pub(crate) struct Stream {
    messages: SyncSender<Message>,
    /// Whether the run waits for its reader.
    waits: bool,
    /// Whether the reader was given up.
    lost: AtomicBool,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writing(JoinHandle<io::Result<()>>);

/// What the thread knows: the period that has not ended.
#[derive(Debug)]
struct Lines {
    watched: Watched,
    period: TimeDelta,
    /// When it ends.
    end: TimeDelta,
    flows: Period,
    links: Period,
    /// The last sample in it: its time, and the run's duration.
    last: Option<(TimeDelta, TimeDelta)>,
}

impl Lines {
    /// Writes until the end. A reader that has closed the pipe is not an error: the run goes on, and nobody hears of it.
    fn write(mut self, begin: &Value, messages: &Receiver<Message>) -> io::Result<()> {
        match self.write_all(begin, messages) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    fn write_all(&mut self, begin: &Value, messages: &Receiver<Message>) -> io::Result<()> {
        line(begin)?;
        for message in messages {
            let is_end = matches!(message, Message::End(_));
            self.on_message(message)?;
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn on_message(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Samples { time, duration, flows, links } => {
                self.flows.add(&flows);
                self.links.add(&links);
                self.last = Some((time, duration));
                if time < self.end {
                    return Ok(());
                }
                let period = self.period.as_nanos().max(1);
                self.end = TimeDelta::from_nanos((time.as_nanos() / period + 1).saturating_mul(period));
                self.close_period()
            }
            Message::End(last) => {
                self.close_period()?;
                last.iter().try_for_each(line)
            }
        }
    }

    /// Writes what has been collected, if there is something, and begins the next period.
    fn close_period(&mut self) -> io::Result<()> {
        let Some((time, duration)) = self.last.take() else { return Ok(()) };
        let time_s = time.as_secs_f64();
        let share = time_s / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        line(&json!({ "event": "progress", "time_s": time_s, "share": share.min(1.0) }))?;
        let row = |name: String, row: Map<String, Value>| {
            let mut named = Map::new();
            named.insert("name".to_owned(), name.into());
            named.extend(row);
            Value::Object(named)
        };
        let watched = &self.watched;
        let flows = self.flows.take::<FlowSample>().into_iter();
        let flows: Vec<Value> = flows.map(|(flow, object)| row(watched.flow_name(flow), object)).collect();
        let links = self.links.take::<LinkSample>().into_iter();
        let links: Vec<Value> = links.map(|(link, object)| row(watched.link_name(link), object)).collect();
        line(&json!({ "event": "interval", "time_s": time_s, "flows": flows, "links": links }))
    }
}

/// Writes a line at once.
fn line(value: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{value}\n").as_bytes())?;
    stdout.flush()
}

impl Stream {
    /// Begins the stream of a run, with a line for each `period` of the run's time.
    pub(crate) fn begin(scenario: &Scenario, period: TimeDelta) -> (Arc<Stream>, Writing) {
        let (messages, received) = sync_channel(WAITING);
        let watched = Watched::new(scenario);
        let begin = json!({
            "event": "begin",
            "scenario": watched.scenario,
            "scenario_hash": scenario.scenario_hash(),
            "seed": watched.seed,
            "clock": watched.clock,
            "duration_s": scenario.duration.0.as_secs_f64(),
            "warmup_s": scenario.warmup.0.as_secs_f64(),
            "period_s": period.as_secs_f64(),
        });
        let lines = Lines {
            watched,
            period,
            end: period,
            flows: Period::default(),
            links: Period::default(),
            last: None,
        };
        let writing = Writing(std::thread::spawn(move || lines.write(&begin, &received)));
        let waits = scenario.clock.mode == ClockMode::Virtual;
        (Arc::new(Stream { messages, waits, lost: AtomicBool::new(false) }), writing)
    }

    /// Ends the stream with the run's results, and where they are.
    pub(crate) fn end(&self, outcome: &RunOutcome, directory: Option<&Path>, report: Option<&Path>) {
        let (directory, report) = (output::json_path(directory), output::json_path(report));
        self.last(vec![
            json!({ "event": "end", "complete": outcome.complete, "summary": outcome.summary }),
            json!({ "event": "written", "directory": directory, "report": report }),
        ]);
    }

    /// Ends the stream of a run that has no results.
    pub(crate) fn fail(&self, failure: &Failure) {
        self.last(vec![json!({ "event": "error", "message": failure.message() })]);
    }

    fn last(&self, lines: Vec<Value>) {
        if !self.lost.load(Ordering::Relaxed) {
            // If nobody writes any more, nobody reads.
            let _ = self.messages.send(Message::End(lines));
        }
    }
}

impl Writing {
    /// Waits until everything is written.
    ///
    /// # Errors
    /// If it could not be, other than because the reader has gone.
    pub(crate) fn wait(self, stream: &Stream) -> Result<(), Failure> {
        if stream.lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.0.join() {
            Ok(Err(error)) => Err(Failure::output(format!("cannot write to standard output: {error}"))),
            _ => Ok(()),
        }
    }
}

impl Watch for Stream {
    fn sample(&self, sample: &Sample<'_>) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        let (flows, links) = (sample.flows.to_vec(), sample.links.to_vec());
        let message = Message::Samples { time: sample.time, duration: sample.duration, flows, links };
        if self.waits {
            let _ = self.messages.send(message);
        } else if let Err(TrySendError::Full(_)) = self.messages.try_send(message) {
            self.lost.store(true, Ordering::Relaxed);
            output::note("nobody reads the lines of --json-stream: they end here, and the run goes on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_whole_number_of_intervals() {
        let scenario = |interval: &str| {
            let text = format!(
                "duration = \"10s\"\nsample_interval = \"{interval}\"\n\
                 link = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\nflow = [{{ from = \"a\", to = \"b\" }}]\n"
            );
            Scenario::from_toml("test.toml", &text, &[]).unwrap()
        };
        let asked = |interval: &str, wished: u64| {
            period(&scenario(interval), Some(TimeDelta::from_millis(wished))).map(TimeDelta::as_millis)
        };
        assert_eq!([100, 300, 5000].map(|wished| asked("100ms", wished)), [Ok(100), Ok(300), Ok(5000)]);
        for (wished, part) in [
            (
                150,
                "--period 150ms is not a whole number of intervals (`sample_interval`, 100ms); write 100ms or 200ms",
            ),
            (0, "write 100ms"),
            (40, "write 100ms"),
        ] {
            let told = asked("100ms", wished).unwrap_err();
            assert!(told.ends_with(part), "{told}");
        }
        let usual = |interval: &str| period(&scenario(interval), None).map(TimeDelta::as_millis);
        assert_eq!(["100ms", "300ms", "2s"].map(usual), [Ok(1000), Ok(1200), Ok(2000)]);
    }
}
