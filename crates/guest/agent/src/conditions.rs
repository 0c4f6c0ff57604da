//! Conditions that others wait for: a program of this guest is ready, or something listens on a port.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use warpline_agent::probe::{Probe, Sockets, Surroundings, retried};
use warpline_agent::{Check, ConditionOrder, Ending, Notice, ProgramOrder, Why};

use crate::channel::Channel;
use crate::failure::{Doing, Failure};
use crate::gate::Gate;
use crate::hosts::{Hosts, enter};
use crate::mounts::SHARED;
use crate::programs::{self, Programs};

/// How often conditions are checked, in nanoseconds.
const LOOK: u64 = 10_000_000;

#[derive(Debug)]
enum State {
    /// Its time has not come.
    Waiting,
    Under(Under),
    Over,
}

/// A condition that is being checked.
#[derive(Debug)]
struct Under {
    probe: Probe,
    since: u64,
    /// The process of a command that is being tried.
    pid: Option<Pid>,
    /// How that process ended.
    ending: Option<Ending>,
}

/// All conditions of a guest.
#[derive(Debug)]
pub(crate) struct Conditions(Vec<(ConditionOrder, State)>);

impl Conditions {
    /// The conditions of an order.
    pub(crate) fn new(orders: &[ConditionOrder]) -> Self {
        Conditions(orders.iter().map(|order| (order.clone(), State::Waiting)).collect())
    }

    /// Begins checking those whose time has come: just before their programs start.
    pub(crate) fn begin(
        &mut self,
        now: u64,
        programs: &Programs,
        hosts: &Hosts,
        gate: &Gate,
        channel: &Channel,
    ) {
        for (order, state) in &mut self.0 {
            let due = match order.program {
                Some(program) => programs.is_due(program, now, gate),
                None => order.start <= now,
            };
            if !matches!(state, State::Waiting) || !due {
                continue;
            }
            let program = order.program.and_then(|program| programs.order(program));
            *state = match begin(order, program, now, hosts) {
                Ok(under) => State::Under(under),
                Err(failure) => {
                    channel.report(&Notice::Fails(order.id, Why::Blind(failure.to_string())));
                    State::Over
                }
            };
        }
    }

    /// Checks all active conditions. Returns whether one of them has become true.
    pub(crate) fn look(&mut self, now: u64, programs: &Programs, gate: &Gate, channel: &Channel) -> bool {
        let mut any = false;
        for (order, state) in &mut self.0 {
            let State::Under(under) = state else { continue };
            let holds = match &under.ending {
                Some(Ending::Exited(0)) => Ok(true),
                Some(ending) => {
                    Err(format!("the command that tests the condition could not be started: {ending:?}"))
                }
                None => under.probe.holds().map_err(|error| error.to_string()),
            };
            let ended = order.program.and_then(|program| programs.progress(program).1);
            let notice = match holds {
                Ok(true) => {
                    gate.open(order.id);
                    any = true;
                    Notice::Holds(order.id)
                }
                Err(why) => Notice::Fails(order.id, Why::Blind(why)),
                // A program that moves to the background also ends like this.
                Ok(false) => match ended.filter(|ending| **ending != Ending::Exited(0)) {
                    Some(ending) => Notice::Fails(order.id, Why::Ended(ending.clone())),
                    None if now - under.since >= order.limit => Notice::Fails(order.id, Why::Limit),
                    None => continue,
                },
            };
            channel.report(&notice);
            under.kill();
            *state = State::Over;
        }
        any
    }

    /// When to check again.
    pub(crate) fn next_look(&self, now: u64) -> Option<u64> {
        let next = |(order, state): &(ConditionOrder, State)| match state {
            State::Under(_) => Some(now + LOOK),
            State::Waiting => order.program.is_none().then_some(order.start),
            State::Over => None,
        };
        self.0.iter().filter_map(next).min()
    }

    /// Records that a process has ended. Returns whether it belonged to a condition.
    pub(crate) fn reaped(&mut self, pid: Pid, ending: &Ending) -> bool {
        for (_, state) in &mut self.0 {
            if let State::Under(under) = state
                && under.pid == Some(pid)
            {
                under.pid = None;
                under.ending = Some(ending.clone());
                return true;
            }
        }
        false
    }

    /// Stops checking.
    pub(crate) fn stop(&mut self) {
        for (_, state) in &mut self.0 {
            if let State::Under(under) = state {
                under.kill();
            }
        }
    }
}

impl Under {
    fn kill(&self) {
        if let Some(pid) = self.pid {
            let _ = killpg(pid, Signal::SIGKILL);
        }
    }
}

fn begin(
    order: &ConditionOrder,
    program: Option<&ProgramOrder>,
    now: u64,
    hosts: &Hosts,
) -> Result<Under, Failure> {
    let (directory, output) = match program {
        Some(program) => (program.directory.as_str(), program.output.as_str()),
        None => ("/", ""),
    };
    let files = ["stdout", "stderr"].map(|kind| PathBuf::from(SHARED).join(format!("{output}.{kind}")));
    let around = Surroundings {
        sockets: sockets(hosts, order.host)?,
        output: files.to_vec(),
        directory: directory.into(),
    };
    let probe = Probe::begin(&order.check, around).doing(|| "look at a host".to_owned())?;
    let pid = match (&order.check, program) {
        (Check::Command(words), Some(program)) => {
            let words = retried(words);
            let mut command = programs::command(&words, &program.environment, directory, hosts, order.host)?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            let child = command.spawn().doing(|| format!("start {}", words[0]))?;
            Some(Pid::from_raw(child.id() as i32))
        }
        _ => None,
    };
    Ok(Under { probe, since: now, pid, ending: None })
}

/// The sockets of a host.
fn sockets(hosts: &Hosts, host: u32) -> Result<Option<Sockets>, Failure> {
    let home = std::fs::File::open("/proc/thread-self/ns/net");
    let home = home.doing(|| "open a network namespace".to_owned())?;
    enter(hosts.namespace(host)?)?;
    let sockets = Sockets::open().doing(|| "see a host's sockets".to_owned());
    enter(&home)?;
    sockets.map(Some)
}
