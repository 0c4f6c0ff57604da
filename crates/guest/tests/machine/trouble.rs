//! Guests that misbehave: the error is reported, the run does not hang, and nothing is left behind.

use std::os::fd::AsRawFd;
use std::path::Path as File;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warpline_core::Timestamp;
use warpline_guest::lockstep::{Ended, Patience};
use warpline_guest::machine::Timing;
use warpline_guest::{GuestError, LockStep, Machine, MachineConfig};

use crate::bed::{Bed, Path, guest, kernel, program};

fn run(config: &MachineConfig, patience: Patience) -> Option<GuestError> {
    let kernel = kernel()?;
    let path = Path::new(1_000_000, 10, 10_000);
    let mut bed = Bed::new(config.order.hosts.len() as u32, path);
    let configs = std::slice::from_ref(config);
    let mut lockstep = match LockStep::boot(&kernel, configs, path.delay, &mut || true) {
        Ok(lockstep) => lockstep.unwrap(),
        Err(error) => return Some(error),
    };
    lockstep.set_patience(patience);
    let end = Timestamp::from_nanos(config.order.end);
    Some(
        lockstep
            .run(&mut bed, end, |_, _, _| true)
            .and_then(|_| lockstep.finish(end, false, &mut || true))
            .unwrap_err(),
    )
}

/// Whether a process exists and is not a zombie that another process has to reap.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// All descendants of the process `pid`.
fn descendants(pid: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<u32> = all.collect();
    let descends = |mut one: u32| {
        while let Some(above) = parent(one).filter(|above| *above > 1) {
            if above == pid {
                return true;
            }
            one = above;
        }
        false
    };
    all.into_iter().filter(|one| descends(*one)).collect()
}

fn wait_gone(pids: &[u32]) {
    for _ in 0..500 {
        if !pids.iter().any(|pid| lives(*pid)) {
            return;
        }
        let _ =
            rustix::event::poll(&mut [], Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
    }
    panic!("still there: {:?}", pids.iter().filter(|pid| lives(**pid)).collect::<Vec<_>>());
}

#[test]
fn a_program_that_computes_without_end_is_reported() {
    let mut config = guest("g", 0, 2, 10.0);
    config.order.programs = vec![program(0, &["sh", "-c", "while :; do :; done"], "0")];
    let Some(error) = run(&config, Patience { silence: 20, computing: 1, pushes: 2 }) else { return };
    let text = error.to_string();
    assert!(
        matches!(error, GuestError::Spins { .. }) && text.contains("guest g: a program computes"),
        "{text}"
    );
}

#[test]
fn a_kernel_that_panics_is_reported_with_its_last_output() {
    let mut config = guest("g", 0, 2, 10.0);
    config.order.programs = vec![program(0, &["sh", "-c", "sleep 1; echo c > /proc/sysrq-trigger"], "0")];
    let Some(error) = run(&config, Patience::default()) else { return };
    let text = error.to_string();
    assert!(text.starts_with("guest g: its kernel panicked"), "{text}");
    assert!(text.contains("sysrq triggered crash"), "{text}");
}

#[test]
fn a_kernel_that_hangs_is_reported() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 2, 1000.0);
    config.order.programs = vec![program(0, &["ping", "-q", "-i", "0.2", "10.0.0.2"], "0")];
    let path = Path::new(1_000_000, 10, 10_000);
    let mut bed = Bed::new(2, path);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    lockstep.set_patience(Patience { silence: 2, computing: 1, pushes: 2 });
    let pid = Pid::from_raw(lockstep.machines().next().unwrap().pid() as i32);
    let mut stopped = false;
    let error = lockstep.run(&mut bed, Timestamp::from_secs(999), |_, _, _| {
        if !std::mem::replace(&mut stopped, true) {
            kill(pid, Signal::SIGSTOP).unwrap();
        }
        true
    });
    let text = error.unwrap_err().to_string();
    let expected = "guest g: its kernel, which had to take its turn, has shown no activity for 2 s";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_guest_with_too_little_memory_reports_it() {
    let mut config = guest("g", 0, 2, 10.0);
    config.memory = 64 << 20;
    config.order.hosts = (0..2000).map(|n| crate::bed::host(n, 1 + n as u16)).collect();
    let Some(error) = run(&config, Patience::default()) else { return };
    let text = error.to_string();
    assert!(text.contains("guest g:") && text.contains("space") | text.contains("memory"), "{text}");
}

#[test]
fn a_guest_reports_what_it_cannot_set_up() {
    let mut config = guest("g", 0, 1, 1.0);
    config.order.hosts[0].sysctl = vec![("net.ipv4.no_such_thing".to_owned(), "1".to_owned())];
    let Some(error) = run(&config, Patience::default()) else { return };
    let text = error.to_string();
    assert!(text.starts_with("guest g: host h0: cannot set sysctl net.ipv4.no_such_thing"), "{text}");
}

#[test]
fn an_invalid_configuration_is_refused_before_the_boot() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 1, 1.0);
    config.memory = 1 << 20;
    assert!(Machine::boot(&kernel, &config).unwrap_err().to_string().contains("1 MB are too little memory"));
    config.memory = 1 << 28;
    config.order.hosts[0].vlan = 4095;
    assert!(Machine::boot(&kernel, &config).unwrap_err().to_string().contains("VLAN 4095; 1 to 4094"));
}

#[test]
fn a_kernel_that_is_killed_is_reported_and_leaves_nothing() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 2, 100.0);
    // Traffic now and then, or the guest would not wait for us.
    config.order.programs = vec![program(0, &["ping", "-q", "-i", "0.2", "10.0.0.2"], "0")];
    let path = Path::new(1_000_000, 10, 10_000);
    let mut bed = Bed::new(2, path);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    lockstep.run(&mut bed, Timestamp::from_secs(1), |_, _, _| true).unwrap();
    let machine = lockstep.machines().next().unwrap();
    let (pid, share) = (machine.pid(), machine.shared(""));
    let processes = descendants(pid);
    // The program, at least: how many helpers a kernel has depends on its series.
    assert!(processes.len() > 1, "{processes:?}");
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
    let error = lockstep.run(&mut bed, Timestamp::from_secs(99), |_, _, _| true);
    let error = error
        .map(drop)
        .and_then(|()| lockstep.finish(Timestamp::from_secs(99), false, &mut || true))
        .unwrap_err();
    assert!(error.to_string().contains("was killed by signal 9"), "{error}");
    wait_gone(&processes);
    drop(lockstep);
    assert!(!File::new(&share).exists());
}

/// A kernel's process has some files at fixed numbers from 200 on. This process may have the same files, or others, at these numbers.
#[test]
fn a_guest_boots_however_many_files_are_open_here() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 1, 1.0);
    config.timing = Timing::Dilated;
    let mut open: Vec<std::fs::File> = Vec::new();
    for last in 197..=200 {
        while open.last().is_none_or(|file| file.as_raw_fd() < last) {
            open.push(std::fs::File::open("/dev/null").unwrap());
        }
        let mut machine = Machine::boot(&kernel, &config).unwrap();
        assert!(machine.wait_ready(60, &mut || true).unwrap(), "{last}");
    }
}

/// The driver is this test itself, in another process.
#[test]
fn a_driver_that_is_killed_leaves_no_process() {
    const PART: &str = "WARPLINE_TEST_DRIVER";
    let Some(kernel) = kernel() else { return };
    if std::env::var_os(PART).is_some() {
        let mut config = guest("g", 0, 2, 1e6);
        config.timing = Timing::Dilated;
        config.order.programs = vec![program(0, &["sleep", "1000"], "0")];
        let mut machine = Machine::boot(&kernel, &config).unwrap();
        machine.wait_ready(60, &mut || true).unwrap();
        let processes = descendants(machine.pid());
        println!(
            "ready {} {}",
            machine.pid(),
            processes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
        );
        machine.wait_end(600, || {});
        return;
    }
    let name = "trouble::a_driver_that_is_killed_leaves_no_process";
    let mut driver = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(PART, "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(driver.stdout.take().unwrap()));
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("ready "))).unwrap();
    let numbers = line.split("ready ").nth(1).unwrap();
    let pids: Vec<u32> = numbers.split(' ').filter_map(|word| word.trim().parse().ok()).collect();
    // Some of the other processes were helpers that started the guest, and have ended by now.
    assert!(pids.len() > 1 && lives(pids[0]), "{line}");
    driver.kill().unwrap();
    driver.wait().unwrap();
    wait_gone(&pids);
}

#[test]
fn guests_may_end_before_the_run() {
    let mut config = guest("g", 0, 2, 1.0);
    config.order.flows = crate::bed::bulk(0, 0, 1, 1, Some(1000)).to_vec();
    let Some(kernel) = kernel() else { return };
    let path = Path::new(1_000_000, 10, 10_000);
    let mut bed = Bed::new(2, path);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    lockstep.run(&mut bed, Timestamp::from_secs(10), |_, _, _| true).unwrap();
    lockstep.finish(Timestamp::from_secs(10), false, &mut || true).unwrap();
    let report = lockstep.machines().next().unwrap().report().unwrap();
    assert_eq!(report.flows[0].last.received, 1000);
}

/// A run can stop without waiting for a guest, both while it boots and while a program computes in its turn.
#[test]
fn a_busy_guest_does_not_delay_a_stop() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 1, 1000.0);
    config.order.programs = vec![program(0, &["sh", "-c", "while :; do :; done"], "0")];
    let path = Path::new(1_000_000, 10, 10_000);
    assert!(
        LockStep::boot(&kernel, std::slice::from_ref(&config), path.delay, &mut || false).unwrap().is_none()
    );

    let mut bed = Bed::new(1, path);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    // The run would fail only after a thousand seconds of computing.
    lockstep.set_patience(Patience { silence: 1000, computing: 1, pushes: 1000 });
    let mut asked = 0;
    let ended = lockstep.run(&mut bed, Timestamp::from_secs(999), |_, _, _| {
        asked += 1;
        asked < 5
    });
    assert_eq!(ended.unwrap(), Ended::Stopped);
    // It does not report either, so it is abandoned.
    assert!(!lockstep.finish(Timestamp::from_secs(999), true, &mut || false).unwrap());
}

/// A guest that is stopped early reports what was measured until then.
#[test]
fn a_run_that_ends_early_is_reported() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 2, 1000.0);
    config.order.flows = crate::bed::bulk(1, 0, 1, 1, None).to_vec();
    config.order.programs = vec![program(0, &["sleep", "900"], "0")];
    let path = Path::new(10_000_000, 10, 10_000);
    let mut bed = Bed::new(2, path);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    let mut until = Timestamp::ZERO;
    let ended = lockstep.run(&mut bed, Timestamp::from_secs(999), |_, now, _| {
        until = now;
        now < Timestamp::from_secs(2)
    });
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert!(lockstep.finish(until, true, &mut || true).unwrap());
    let report = lockstep.machines().next().unwrap().report().unwrap();
    assert!(report.flows[1].last.acked > 1_000_000 && report.flows[1].finished.is_none(), "{report:?}");
    assert_eq!(report.programs[0].ending, warpline_guest::order::Ending::Stopped);
}
