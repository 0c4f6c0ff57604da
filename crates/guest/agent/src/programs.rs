//! Programs on the guest's hosts.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use warpline_agent::{Ending, GRACE, Notice, ProgramOrder, ProgramReport};

use crate::channel::Channel;
use crate::clock::{self, Clock};
use crate::failure::{Doing, Failure};
use crate::gate::Gate;
use crate::hosts::Hosts;
use crate::mounts::SHARED;

/// Capabilities that programs in a guest do not have: with them, a program could reach the machine's files, crash the kernel,
/// or make the agent do so (capabilities(7): SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, MKNOD). Without
/// SYS_PTRACE, a program can still trace programs with no more capabilities than its own: all but the agent.
const WITHHELD: [libc::c_ulong; 6] = [16, 17, 19, 21, 22, 27];

#[derive(Debug)]
struct Program {
    order: ProgramOrder,
    /// Its process, until that has ended.
    pid: Option<Pid>,
    /// The group of its process, which also has what that has started.
    group: Option<Pid>,
    report: ProgramReport,
}

/// All programs of a guest.
#[derive(Debug)]
pub(crate) struct Programs {
    all: Vec<Program>,
    clock: Clock,
}

impl Program {
    fn is_due(&self, now: u64, gate: &Gate) -> bool {
        self.report.started.is_none() && self.order.start <= now && gate.holds(&self.order.after)
    }

    /// Whether a process of its group is there.
    fn is_there(&self) -> bool {
        self.group.is_some_and(|group| killpg(group, None::<Signal>).is_ok())
    }
}

/// A command in a host's namespace, without the withheld capabilities.
pub(crate) fn command(
    words: &[String],
    environment: &[(String, String)],
    directory: &str,
    hosts: &Hosts,
    host: u32,
) -> Result<Command, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("a program without a name"))?;
    let namespace = hosts.namespace(host)?.try_clone().doing(|| "duplicate a descriptor".to_owned())?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment.iter().cloned()).current_dir(directory);
    // SAFETY: the closure makes system calls, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            clock::set_slack(clock::USUAL);
            // The agent blocks signals that it waits for. A shell with SIGCHLD blocked never learns that its children have ended.
            SigSet::empty().thread_set_mask()?;
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            for capability in WITHHELD {
                // SAFETY: no pointers are passed.
                Errno::result(libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0))?;
            }
            Ok(())
        });
    }
    Ok(command)
}

impl Programs {
    /// The programs of an order; none has been started yet.
    pub(crate) fn new(orders: &[ProgramOrder], clock: Clock) -> Self {
        let report = ProgramReport {
            ending: Ending::NotStarted("the run ended before its start time".to_owned()),
            started: None,
            ended: None,
            files: Vec::new(),
            missing: Vec::new(),
        };
        let program = |order: &ProgramOrder| Program {
            order: order.clone(),
            pid: None,
            group: None,
            report: report.clone(),
        };
        Programs { all: orders.iter().map(program).collect(), clock }
    }

    /// The next start time of a program after `now`.
    pub(crate) fn next_start(&self, now: u64) -> Option<u64> {
        let waiting = self.all.iter().filter(|program| program.report.started.is_none());
        waiting.map(|program| program.order.start).filter(|start| *start > now).min()
    }

    /// When a program was started, and how it ended, if it has.
    pub(crate) fn progress(&self, number: u32) -> (Option<u64>, Option<&Ending>) {
        let report = self.all.get(number as usize).map(|program| &program.report);
        let ended = report.filter(|report| report.ended.is_some()).map(|report| &report.ending);
        (report.and_then(|report| report.started), ended)
    }

    /// The order of a program.
    pub(crate) fn order(&self, number: u32) -> Option<&ProgramOrder> {
        self.all.get(number as usize).map(|program| &program.order)
    }

    /// Whether a program is about to start: its time has come, and its conditions hold.
    pub(crate) fn is_due(&self, number: u32, now: u64, gate: &Gate) -> bool {
        self.all.get(number as usize).is_some_and(|program| program.is_due(now, gate))
    }

    /// Reports the programs that have ended since the last call, if a notice was ordered.
    pub(crate) fn report_ends(&mut self, channel: &Channel) {
        for program in self.all.iter_mut().filter(|program| program.report.ended.is_some()) {
            if let Some(number) = program.order.notice.take() {
                channel.report(&Notice::Ended(number));
            }
        }
    }

    /// Starts the programs whose time has come and whose conditions hold.
    pub(crate) fn start(&mut self, now: u64, hosts: &Hosts, gate: &Gate) {
        for program in &mut self.all {
            if !program.is_due(now, gate) {
                continue;
            }
            program.report.started = Some(now);
            match spawn(&program.order, hosts) {
                Ok(pid) => {
                    (program.pid, program.group) = (Some(pid), Some(pid));
                    program.report.ending = Ending::Stopped;
                }
                Err(failure) => {
                    program.report.ended = Some(now);
                    program.report.ending = Ending::NotStarted(failure.to_string());
                }
            }
        }
    }

    /// Records that a process has ended. Returns whether it was one of the programs.
    pub(crate) fn reaped(&mut self, pid: Pid, ending: Ending, stopping: bool) -> bool {
        let Some(program) = self.all.iter_mut().find(|program| program.pid == Some(pid)) else {
            return false;
        };
        program.pid = None;
        program.report.ended = Some(self.clock.now());
        if !stopping {
            program.report.ending = ending;
        }
        true
    }

    /// Signals running programs to stop, waits, and kills those that do not. The same happens to what they have started in their groups:
    /// a shell ends at once, or has ended long before, while what it runs still has something to write.
    pub(crate) fn stop(&mut self) {
        for program in &self.all {
            if let (Some(group), Ok(signal)) = (program.group, Signal::try_from(program.order.stop)) {
                let _ = killpg(group, signal);
            }
        }
        let patience = self.clock.now() + GRACE;
        while self.all.iter().any(Program::is_there) && self.clock.now() < patience {
            while let Some((pid, ending)) = reap() {
                self.reaped(pid, ending, true);
            }
            self.clock.sleep_until(self.clock.now() + GRACE / 100);
        }
        for group in self.all.iter().filter_map(|program| program.group) {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Brings files back and reports on all programs.
    pub(crate) fn report(mut self) -> Vec<ProgramReport> {
        for program in &mut self.all {
            for (number, file) in program.order.collect.iter().enumerate() {
                let from = Path::new(&program.order.directory).join(file);
                match bring_back(&program.order.output, number, &from) {
                    Ok(name) => program.report.files.push(name),
                    Err(failure) => program.report.missing.push(failure.to_string()),
                }
            }
        }
        self.all.into_iter().map(|program| program.report).collect()
    }
}

fn bring_back(output: &str, number: usize, from: &Path) -> Result<String, Failure> {
    let doing = || format!("bring {} back", from.display());
    let own = from.file_name().ok_or_else(|| Failure::new(format!("{} names no file", from.display())))?;
    let name = format!("{output}.file{number}.{}", own.to_string_lossy());
    fs::copy(from, Path::new(SHARED).join(&name)).doing(doing)?;
    Ok(name)
}

/// The files of a program's standard output and error in the share.
pub(crate) fn outputs(name: &str) -> Result<[File; 2], Failure> {
    let output = |kind: &str| {
        let path = PathBuf::from(SHARED).join(format!("{name}.{kind}"));
        File::create(&path).doing(|| format!("make {}", path.display()))
    };
    Ok([output("stdout")?, output("stderr")?])
}

fn spawn(order: &ProgramOrder, hosts: &Hosts) -> Result<Pid, Failure> {
    let mut command = command(&order.words, &order.environment, &order.directory, hosts, order.host)?;
    let [stdout, stderr] = outputs(&order.output)?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    let child = command.spawn().doing(|| format!("start {}", order.words[0]))?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// Reaps one process that has ended: the first process of a system inherits all orphans.
pub(crate) fn reap() -> Option<(Pid, Ending)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, Ending::Exited(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => return Some((pid, Ending::Signalled(signal as i32))),
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
