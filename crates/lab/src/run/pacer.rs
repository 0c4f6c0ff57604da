//! How a run's time goes: by the machine's clock, slowed by a constant factor, or by one that is raised until the machine can carry the
//! run.

use warpline_core::{Tdf, TimeDelta};
use warpline_live::clock::host_now;
use warpline_live::emulator::{Emulator, Load};
use warpline_results::live::{DilationStep, DilationSummary};
use warpline_scenario::{self as scenario, Clock};

use super::endpoints::Paced;

/// How long before its time a change is announced, in nanoseconds of the machine: all have to hear of it before.
const NOTICE: u64 = 20_000_000;
/// What the machine is watched for at a time, in nanoseconds.
const WINDOW: u64 = 150_000_000;
/// Beyond this share of a core that one of the threads wants it is taken for the bottleneck.
const FULL: f64 = 0.9;
/// Beyond this share of late packets the emulator does not keep pace.
const LATE: f64 = 0.001;
/// The factor is raised by this.
const STEP: f64 = 2.0;
/// And no further than this.
const MOST: f64 = 10_000.0;

/// What was seen of the machine in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Signs {
    /// The largest share of a core that a guest's kernel or the emulator had, or waited for.
    share: f64,
    /// Packets that the emulator has sent, and those that were late.
    packets: u64,
    late: u64,
}

/// The factor that a run should have which has this one; none if it may stay.
fn raised(tdf: Tdf, signs: Signs) -> Option<Tdf> {
    let late = signs.late > 1 && signs.late as f64 > signs.packets as f64 * LATE;
    if signs.share < FULL && !late {
        return None;
    }
    let next = Tdf::new((tdf.as_f64() * STEP).min(MOST))?;
    (next > tdf).then_some(next)
}

/// What the counters showed at the window's beginning.
#[derive(Clone, Debug, Default)]
struct Usage {
    host: u64,
    load: Load,
    /// By machine: nanoseconds on a core, and waiting for one.
    wanted: Vec<u64>,
}

impl Usage {
    fn take(emulator: &Emulator, hosts: &[impl Paced]) -> Self {
        let processes = hosts.iter().flat_map(Paced::processes);
        Usage {
            host: host_now(),
            load: emulator.load(),
            wanted: processes.map(|process| wanted(process).unwrap_or(0)).collect(),
        }
    }

    fn since(&self, before: &Usage) -> Signs {
        let span = self.host.saturating_sub(before.host).max(1) as f64;
        let machines = self.wanted.iter().zip(&before.wanted).map(|(now, then)| now.saturating_sub(*then));
        let most = machines.chain([self.load.cpu.saturating_sub(before.load.cpu)]).max().unwrap_or(0);
        Signs {
            share: most as f64 / span,
            packets: self.load.packets.saturating_sub(before.load.packets),
            late: self.load.late.saturating_sub(before.load.late),
        }
    }
}

/// Nanoseconds that a process's first thread has been on a core or has waited for one (`/proc/PID/schedstat`, Linux's
/// Documentation/scheduler/sched-stats.rst). For a guest that is its kernel; its programs are other processes, which may compute as
/// much as they like.
fn wanted(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    Some(fields.next()? + fields.next()?)
}

/// Keeps a run's time.
#[derive(Debug)]
pub(super) struct Pacer {
    dilated: bool,
    auto: bool,
    tdf: Tdf,
    /// When a change that was announced takes place.
    coming: Option<u64>,
    before: Usage,
    steps: Vec<DilationStep>,
}

impl Pacer {
    /// As a scenario says. The clock stands until [`Pacer::begin`].
    pub(super) fn new(clock: &Clock) -> Self {
        let (auto, factor) = match clock.tdf {
            None => (false, 1.0),
            Some(scenario::Tdf::Factor(factor)) => (false, factor),
            Some(scenario::Tdf::Auto) => (true, 1.0),
        };
        Pacer {
            dilated: clock.tdf.is_some(),
            auto,
            tdf: Tdf::new(factor).unwrap_or(Tdf::REAL),
            coming: None,
            before: Usage::default(),
            steps: Vec::new(),
        }
    }

    /// The factor at present.
    pub(super) fn tdf(&self) -> Tdf {
        self.tdf
    }

    /// Starts the run's time, for the emulator and the guests at the same instant. `settle` is how long it goes by the machine's own
    /// clock before it is dilated.
    pub(super) fn begin(&mut self, emulator: &mut Emulator, hosts: &[impl Paced], settle: TimeDelta) {
        let start =
            host_now() + if hosts.iter().all(|host| host.processes().is_empty()) { 0 } else { NOTICE };
        if settle.is_zero() {
            emulator.begin_clock(start, self.tdf);
        } else {
            emulator.begin_clock(start, Tdf::REAL);
            emulator.change_tdf(start + settle.as_nanos(), self.tdf);
            self.coming = Some(start + settle.as_nanos());
        }
        let pace = emulator.clock().pace();
        hosts.iter().for_each(|host| host.follow(pace));
        let now = if settle.is_zero() { self.tdf } else { Tdf::REAL };
        hosts.iter().for_each(|host| host.nudge(now));
        self.steps.push(DilationStep { time_s: 0.0, wall_s: 0.0, tdf: self.tdf.as_f64() });
        self.before = Usage::take(emulator, hosts);
    }

    /// Looks whether the factor is to be changed. To be called often.
    pub(super) fn look(&mut self, emulator: &mut Emulator, hosts: &[impl Paced]) {
        let now = host_now();
        if let Some(at) = self.coming {
            if now < at {
                return;
            }
            self.coming = None;
            hosts.iter().for_each(|host| host.nudge(self.tdf));
            self.before = Usage::take(emulator, hosts);
        }
        if !self.auto || now.saturating_sub(self.before.host) < WINDOW {
            return;
        }
        let reading = Usage::take(emulator, hosts);
        let signs = reading.since(&self.before);
        self.before = reading;
        if let Some(tdf) = raised(self.tdf, signs) {
            self.change(tdf, emulator, hosts);
        }
    }

    fn change(&mut self, tdf: Tdf, emulator: &mut Emulator, hosts: &[impl Paced]) {
        let at = host_now() + NOTICE;
        emulator.change_tdf(at, tdf);
        let pace = emulator.clock().pace();
        hosts.iter().for_each(|host| host.follow(pace));
        self.tdf = tdf;
        self.coming = Some(at);
        let clock = emulator.clock();
        self.steps.push(DilationStep {
            time_s: clock.at(at).as_secs_f64(),
            wall_s: at.saturating_sub(clock.started()) as f64 / 1e9,
            tdf: tdf.as_f64(),
        });
    }

    /// The run is over: what the guests still have to do they do in the machine's own time.
    pub(super) fn wind_down(&mut self, emulator: &mut Emulator, hosts: &[impl Paced]) {
        // A host with a factor of its own may be slower than the run.
        let (at, tdf) = (host_now(), self.tdf.min(Tdf::REAL));
        emulator.change_tdf(at, tdf);
        let pace = emulator.clock().pace();
        hosts.iter().for_each(|host| host.follow(pace));
        hosts.iter().for_each(|host| host.nudge(tdf));
    }

    /// What is said of it: the run came to `perceived` seconds in `wall` seconds of the machine. None by the real clock.
    pub(super) fn summary(&self, perceived: f64, wall: f64) -> Option<DilationSummary> {
        self.dilated.then(|| DilationSummary {
            auto: self.auto,
            perceived_s: perceived,
            wall_s: wall,
            tdf_mean: if perceived > 0.0 { wall / perceived } else { self.tdf.as_f64() },
            tdf: self.tdf.as_f64(),
            steps: self.steps.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_rises_while_somebody_has_no_time_left_or_packets_are_late() {
        let tdf = Tdf::new(3.0).unwrap();
        let idle = Signs { share: 0.5, packets: 10_000, late: 5 };
        assert_eq!(raised(tdf, idle), None);
        assert_eq!(raised(tdf, Signs { share: 0.97, ..idle }), Tdf::new(6.0));
        assert_eq!(raised(tdf, Signs { late: 50, ..idle }), Tdf::new(6.0));
        // One late packet in a few is nothing.
        assert_eq!(raised(tdf, Signs { packets: 10, late: 1, ..idle }), None);
        let most = Tdf::new(MOST).unwrap();
        assert_eq!(raised(Tdf::new(7000.0).unwrap(), Signs { share: 1.0, ..idle }), Some(most));
        assert_eq!(raised(most, Signs { share: 1.0, ..idle }), None);
    }

    #[test]
    fn what_a_process_wants_of_a_core_is_known() {
        assert!(wanted(std::process::id()).unwrap() > 0);
        assert_eq!(wanted(u32::MAX), None);
    }

    #[test]
    fn both_clocks_are_told_and_the_real_one_is_not() {
        let clock = |tdf| Clock { tdf, ..Clock::default() };
        assert_eq!(Pacer::new(&clock(None)).summary(1.0, 1.0), None);
        let summary = Pacer::new(&clock(Some(scenario::Tdf::Factor(10.0)))).summary(2.0, 20.0).unwrap();
        assert_eq!((summary.tdf, summary.tdf_mean, summary.auto), (10.0, 10.0, false));
        assert!(Pacer::new(&clock(Some(scenario::Tdf::Auto))).summary(0.0, 0.0).unwrap().auto);
    }
}
