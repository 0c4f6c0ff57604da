//! What the agent does, from the guest's boot to its end.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::mount::umount;
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, dup2_stderr, dup2_stdout, sethostname, sync};
use warpline_agent::{Ending, FAILURE, FROZEN, Notice, Order, READY, REPORT, Report, SAMPLES, SHOWN};

use crate::channel::Channel;
use crate::clock::{self, Clock};
use crate::conditions::Conditions;
use crate::console;
use crate::failure::{Doing, Failure};
use crate::flow::Flows;
use crate::gate::Gate;
use crate::hosts::Hosts;
use crate::modules;
use crate::mounts::{self, SHARED};
use crate::programs::{Programs, reap};
use crate::queues;
use crate::samples::Samples;
use crate::terminals::Terminals;

/// The agent's limit of open files; each host and flow needs some.
const FILES: u64 = 65_536;

/// Runs the agent.
pub(crate) fn run() {
    let code = match live() {
        Ok(()) => 0,
        Err(failure) => {
            let _ = fs::write(Path::new(SHARED).join(FAILURE), failure.to_string());
            let _ = writeln!(std::io::stderr(), "warpline: {failure}");
            1
        }
    };
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    sync();
    let _ = umount(SHARED);
    // The exit code of the kernel's process.
    let _ = fs::write("/proc/exitcode", code.to_string());
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

fn write(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = Path::new(SHARED).join(name);
    fs::write(&path, bytes).doing(|| format!("write {}", path.display()))
}

/// The same, for a file that another process waits for: it appears with all of its bytes.
fn write_whole(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let new = format!("{name}.new");
    write(&new, bytes)?;
    let shared = |name: &str| Path::new(SHARED).join(name);
    fs::rename(shared(&new), shared(name)).doing(|| format!("write {name}"))
}

/// Reports the time on the clock while it stands still. It polls, because no sleep would end. The wall clock, which a kernel reads before its own
/// begins to count, is set to show `epoch` when the other shows `start`.
fn align(start: u64, epoch: u64) -> Result<(), Failure> {
    let frozen = Path::new(SHARED).join(FROZEN);
    while !frozen.exists() {
        std::thread::yield_now();
    }
    let shown = clock::monotonic();
    clock::set_wall(epoch - start + shown).doing(|| "set the wall clock".to_owned())?;
    write_whole(SHOWN, shown.to_string().as_bytes())
}

/// Bytes of memory that the kernel reports as available.
fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Disables programs of the machine that the kernel would start by itself for every new host: modules are loaded here, and devices are known.
/// An empty line stands for none; a kernel without such a setting starts none.
fn without_helpers() {
    for path in ["/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper"] {
        let _ = fs::write(path, "\n");
    }
}

fn live() -> Result<(), Failure> {
    let order = mounts::read_order()?;
    let overlay = order.modules.iter().find(|path| path.ends_with("/overlay.ko"));
    mounts::set_up(&order, overlay.map(String::as_str))?;
    without_helpers();
    if let [host] = &order.hosts[..] {
        // The host name, as prompts and logs show it. With several hosts it cannot name them all, and it has at most 64 bytes.
        let _ = sethostname(&host.name);
    }
    if let Ok(terminal) = fs::OpenOptions::new().write(true).open("/dev/console") {
        let _ = dup2_stdout(&terminal);
        let _ = dup2_stderr(&terminal);
        debug_assert!(terminal.as_raw_fd() >= 0);
    }
    for module in order.modules.iter().filter(|path| Some(*path) != overlay) {
        modules::load(module)?;
    }
    setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).doing(|| "raise the limit of open files".to_owned())?;
    // A broken connection is an error of the flow, not the end of the guest; the ends of programs are awaited below.
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: ignoring a signal runs no code.
    unsafe { sigaction(Signal::SIGPIPE, &ignore) }.doing(|| "ignore SIGPIPE".to_owned())?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.add(Signal::SIGIO);
    children.thread_block().doing(|| "block SIGCHLD and SIGIO".to_owned())?;

    let free = free_memory();
    clock::set_slack(clock::PUNCTUAL);
    let clock = Clock::new(order.start);
    let hosts = Hosts::create(&order)?;
    queues::set_up(&order, &hosts)?;
    let hosts_memory = free.saturating_sub(free_memory());
    mounts::close_settings()?;
    let channel = Channel::open()?;
    let gate = Gate::default();
    let flows = Flows::prepare(&order.flows, &hosts, clock, &gate)?;
    if clock.until(0) == 0 {
        return Err(Failure::new(format!(
            "{} hosts and {} flows could not be set up before the run was to start",
            order.hosts.len(),
            order.flows.len()
        )));
    }
    write(READY, b"")?;
    if let Some(epoch) = order.align {
        align(order.start, epoch)?;
    }
    sync();
    clock.sleep_until(0);
    let mut report = perform(&order, clock, &hosts, flows, (&channel, &gate), &children)?;
    queues::report(&order, &hosts)?;
    report.hosts_memory = hosts_memory;
    report.free_memory = free_memory();
    let json = serde_json::to_vec(&report).doing(|| "write the report".to_owned())?;
    write_whole(REPORT, &json)
}

/// From the run's start to its end.
fn perform(
    order: &Order,
    clock: Clock,
    hosts: &Hosts,
    mut flows: Flows,
    (channel, gate): (&Channel, &Gate),
    children: &SigSet,
) -> Result<Report, Failure> {
    let mut programs = Programs::new(&order.programs, clock);
    let mut conditions = Conditions::new(&order.conditions);
    let mut terminals = Terminals::open(order.terminals)?;
    let mut told_to_end = false;
    let mut shell = None;
    let mut report = Report::default();
    let mut samples = Samples::new(Path::new(SHARED).join(SAMPLES));
    let mut next_sample = if order.interval > 0 { order.interval } else { u64::MAX };
    let mut warm = order.warmup == 0;
    loop {
        let now = clock.now();
        while let Some((pid, ending)) = reap() {
            if shell == Some(pid) {
                report.console = Some(ending);
            } else if !conditions.reaped(pid, &ending) && !terminals.reaped(pid, &ending) {
                programs.reaped(pid, ending, false);
            }
        }
        programs.report_ends(channel);
        while let Some(notice) = channel.take() {
            match notice {
                Notice::GoOn(condition) => gate.open(condition),
                Notice::End => told_to_end = true,
                Notice::Holds(_) | Notice::Fails(..) | Notice::Ended(_) => {}
            }
        }
        if report.console.is_some() {
            break;
        }
        if !warm && now >= order.warmup {
            warm = true;
            flows.warm();
        }
        if now >= next_sample {
            flows.sample(next_sample, |sample| samples.add(&sample));
            samples.make_room()?;
            next_sample += order.interval;
        }
        if now >= order.end || told_to_end {
            break;
        }
        flows.stop(now);
        conditions.begin(now, &programs, hosts, gate, channel);
        programs.start(now, hosts, gate);
        terminals.start(hosts);
        if conditions.look(now, &programs, gate, channel) {
            // A program of this guest may wait for it.
            continue;
        }
        let console = order.console.as_ref().filter(|_| shell.is_none());
        if let Some(console) = console.filter(|console| console.start <= now) {
            match console::start(console, hosts) {
                Ok(pid) => shell = Some(pid),
                Err(failure) => {
                    report.console = Some(Ending::NotStarted(failure.to_string()));
                    break;
                }
            }
        }
        let next = [
            Some(order.end),
            Some(next_sample),
            (!warm).then_some(order.warmup),
            flows.next_stop(),
            console.map(|console| console.start).filter(|start| *start > now),
            programs.next_start(now),
            conditions.next_look(now),
        ];
        wait(clock, next.into_iter().flatten().min().unwrap_or(order.end), children);
    }
    report.flows = flows.report();
    flows.check()?;
    conditions.stop();
    programs.stop();
    report.programs = programs.report();
    if order.interval > 0 {
        samples.write()?;
    }
    Ok(report)
}

/// Waits until `at`, or until a process ends or a notice arrives.
fn wait(clock: Clock, at: u64, children: &SigSet) {
    let span = clock.until(at);
    let span =
        nix::libc::timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
    // SAFETY: both pointers are to values that live through the call; no information about the signal is asked for.
    unsafe { nix::libc::sigtimedwait(children.as_ref(), std::ptr::null_mut(), &raw const span) };
}
