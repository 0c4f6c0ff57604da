//! The progress bar: simulated time, speed, and what remains.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use warpline_lab::run::Progress;

use crate::output::short;

/// The look of the bar. Its unit is the simulated nanosecond, so `per_sec` is a speed in simulated time.
const TEMPLATE: &str = "{prefix:.bold} [{bar:30.cyan}] {percent} %  {simulated}, {pace}{msg}, {remaining}";

/// A bar on stderr for one run or for several at once; drawn only on a terminal.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Simulated nanoseconds and packet-hops of each run.
    runs: Vec<(AtomicU64, AtomicU64)>,
}

impl Bar {
    /// A bar for `runs` runs of `duration` nanoseconds each; nothing is drawn when `hidden`.
    pub(crate) fn new(name: &str, runs: usize, duration: u64, hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bar = ProgressBar::with_draw_target(Some(duration.saturating_mul(runs as u64)), target);
        // The template is a constant; if it does not parse, use the plain bar.
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(
            style
                .with_key("simulated", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                    let _ = write!(
                        text,
                        "{} of {}",
                        seconds(state.pos()),
                        seconds(state.len().unwrap_or_default())
                    );
                })
                .with_key("pace", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                    let _ = write!(text, "{} x real time", short(state.per_sec() / 1e9));
                })
                .with_key("remaining", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                    let _ = write!(text, "{} left", remaining(state.eta()));
                })
                .progress_chars("=> "),
        );
        bar.set_prefix(name.to_owned());
        Bar { bar, runs: (0..runs).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect() }
    }

    /// Updates the progress of one run.
    pub(crate) fn update(&self, which: usize, progress: &Progress) {
        let Some((simulated, hops)) = self.runs.get(which) else { return };
        simulated.store(progress.simulated.as_nanos(), Ordering::Relaxed);
        hops.store(progress.packet_hops, Ordering::Relaxed);
        if self.bar.is_hidden() {
            return;
        }
        let sum = |part: fn(&(AtomicU64, AtomicU64)) -> &AtomicU64| {
            self.runs.iter().map(|run| part(run).load(Ordering::Relaxed)).sum::<u64>()
        };
        let elapsed = self.bar.elapsed().as_secs_f64();
        let mut message = format!(", {} packet-hops/s", short(sum(|run| &run.1) as f64 / elapsed.max(1e-3)));
        if self.runs.len() > 1 {
            let length = progress.duration.as_nanos();
            let done = self.runs.iter().filter(|run| run.0.load(Ordering::Relaxed) >= length).count();
            let _ = write!(message, ", {done} of {} runs", self.runs.len());
        }
        self.bar.set_message(message);
        self.bar.set_position(sum(|run| &run.0));
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The look of the bar for steps that take about equally long.
const STEPS: &str = "[{bar:30.cyan}] {percent} %  {msg}";

/// A bar on stderr for work in steps; drawn only on a terminal.
#[derive(Debug)]
pub(crate) struct Steps(ProgressBar);

impl Steps {
    /// A bar; nothing is drawn when `hidden`.
    pub(crate) fn new(hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template(STEPS).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Steps(bar)
    }

    /// Shows how far the work is, as a share, and what comes next.
    pub(crate) fn update(&self, share: f64, what: &str) {
        self.0.set_position((share * 1000.0) as u64);
        self.0.set_message(what.to_owned());
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Simulated nanoseconds as seconds.
fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}

/// The remaining wall-clock time, to the second.
fn remaining(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
