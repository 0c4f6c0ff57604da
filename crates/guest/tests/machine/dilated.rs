//! Guests in dilated time. The tests check only lower limits of time, so they do not depend on the speed of the machine.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpline_core::Pace;
use warpline_core::dilation::Clocks;
use warpline_guest::dilation::{self, Tdf};
use warpline_guest::machine::Timing;
use warpline_guest::order::{Ending, Notice, Report};
use warpline_guest::time::host_now;
use warpline_guest::{CpuLimit, GuestError, Machine, MachineConfig, frame};

use crate::bed::{counting, guest, kernel, program};

/// Time limit of every guest here, far more than it needs: a guest ends with its program.
const ENOUGH: f64 = 600.0;

/// Runs a guest in dilated time until its program ends. Carries frames between its two hosts without delay, and calls `each` now and then.
/// Returns its report, what it left in the share, and the machine's seconds from the start of the run to its end.
fn run(
    config: &mut MachineConfig,
    tdf: f64,
    each: impl FnMut(&Machine, &mut Pace),
) -> Option<(Report, Machine, f64)> {
    run_seeing(config, tdf, each, |_, _| {})
}

/// The same; `see` gets each datagram that a host sends, and its VLAN.
pub(crate) fn run_seeing(
    config: &mut MachineConfig,
    tdf: f64,
    mut each: impl FnMut(&Machine, &mut Pace),
    mut see: impl FnMut(u16, &[u8]),
) -> Option<(Report, Machine, f64)> {
    let kernel = kernel()?;
    config.timing = Timing::Dilated;
    config.order.programs[0].notice = Some(0);
    let mut machine = Machine::boot(&kernel, config).unwrap();
    machine.wait_ready(60, &mut || true).unwrap();
    let mut last = 0;
    let mut nic = machine.take_nic().unwrap();
    let begun = host_now();
    let mut pace = Pace::new(begun, Tdf::new(tdf).unwrap());
    dilation::follow([&machine], &pace);
    dilation::nudge([&machine]);
    while machine.is_alive() {
        let span = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let _ = poll(&mut [PollFd::new(&nic.fd(), PollFlags::IN)], Some(&span));
        let mut answers = Vec::new();
        let earliest = last;
        let mut over = false;
        nic.receive(1000, |at, frame| {
            // Its time is of the run, in order, and not in the future.
            assert!(at >= earliest && at <= pace.at(host_now()), "{at}");
            last = at;
            let Some((vlan, datagram)) = frame::parse(frame) else {
                over |= Notice::parse(frame) == Some(Notice::Ended(0));
                return;
            };
            see(vlan, datagram);
            answers.push((frame::header(3 - vlan, datagram), datagram.to_vec()));
        })
        .unwrap();
        for (header, datagram) in answers {
            assert!(nic.transmit(&[&header, &datagram]));
        }
        if over {
            assert!(nic.transmit(&[&Notice::End.frame()]));
        }
        nic.flush();
        each(&machine, &mut pace);
    }
    let took = (host_now() - begun) as f64 / 1e9;
    Some((machine.report().unwrap(), machine, took))
}

#[test]
fn a_second_of_the_guest_takes_tdf_seconds_of_the_machine() {
    for tdf in [0.5, 1.0, 2.5] {
        let mut config = guest("g", 0, 2, ENOUGH);
        let line = "date +%s%N; sleep 0.5; date +%s%N; cat /proc/uptime";
        config.order.programs = vec![program(0, &["sh", "-c", line], "0")];
        let Some((report, machine, took)) = run(&mut config, tdf, |_, _| {}) else { return };
        assert_eq!(report.programs[0].ending, Ending::Exited(0));
        assert!(took >= 0.5 * tdf, "0.5 s of the guest took {took} s at TDF {tdf}");
        let said = std::fs::read_to_string(machine.shared("0.stdout")).unwrap();
        let dates: Vec<u64> = said.lines().take(2).map(|line| line.parse().unwrap()).collect();
        // The program starts at the run's start, the first of January, and not before.
        let start = warpline_guest::time::EPOCH;
        assert!(dates[0] >= start && dates[1] - dates[0] >= 500_000_000, "{said}");
        // No more time has passed for the guest than for the machine.
        assert!((dates[1] - start) as f64 / 1e9 <= took / tdf, "{said} in {took} s");
        let uptime: f64 = said.lines().nth(2).unwrap().split(' ').next().unwrap().parse().unwrap();
        // Both clocks show the same time of the run; this one is read later, and in hundredths.
        assert!((dates[1] - start) as f64 / 1e9 <= uptime - 100.0 + 0.01, "{said}");
        assert!(uptime >= 100.5 && uptime <= 100.1 + took / tdf, "{uptime} after {took} s");
    }
}

#[test]
fn a_guest_can_have_a_factor_of_its_own() {
    let mut config = guest("g", 0, 2, ENOUGH);
    let (run_tdf, own) = (4.0, 2.0);
    config.clocks = Clocks::new(Tdf::new(run_tdf).unwrap(), Tdf::new(own).unwrap());
    // What the ping sends has the run's time, which `run` checks.
    let line = "date +%s%N; ping -c 3 -i 0.2 10.0.0.2 > /dev/null; sleep 0.5; date +%s%N";
    config.order.programs = vec![program(0, &["sh", "-c", line], "0")];
    let Some((report, machine, took)) = run(&mut config, run_tdf, |_, _| {}) else { return };
    assert_eq!(report.programs[0].ending, Ending::Exited(0));
    let said = std::fs::read_to_string(machine.shared("0.stdout")).unwrap();
    let dates: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    let slept = (dates[1] - dates[0]) as f64 / 1e9;
    // Its 0.9 s take 1.8 s of the machine at least, and none of its seconds is shorter than two of the machine's.
    assert!(slept >= 0.9 && took >= 1.8, "{said} in {took} s");
    assert!((dates[1] - warpline_guest::time::EPOCH) as f64 / 1e9 <= took / own, "{said} in {took} s");
}

#[test]
fn a_share_of_a_core_is_given_anew_in_periods_of_the_guests_time_and_what_was_used_is_told() {
    let mut config = guest("g", 0, 1, ENOUGH);
    config.cpu = Some(CpuLimit { share: 0.1, period: 10_000_000 });
    // It computes for a while, with no need to finish: in 0.3 s of its time it is held back some thirty times.
    let line = "timeout 0.3 sh -c 'while :; do :; done'; true";
    config.order.programs = vec![program(0, &["sh", "-c", line], "0")];
    let (tdf, mut held) = (Tdf::new(3.0).unwrap(), false);
    let Some(kernel) = kernel() else { return };
    // Whether this machine lets us have a control group.
    if let Err(error @ GuestError::Share { .. }) = Machine::boot(&kernel, &config) {
        return warpline_skip::skip("cpu-controller", error);
    }
    let ran = run(&mut config, 3.0, |machine, _| {
        if !std::mem::replace(&mut held, true) {
            assert_eq!(machine.cpu_used(), None);
            machine.limit(Some(tdf)).unwrap();
        }
    });
    let Some((_, machine, _)) = ran else { return };
    machine.limit(None).unwrap();
    let used = machine.cpu_used().unwrap();
    assert_eq!((used.share, used.period), (0.1, 30_000_000));
    assert!(used.throttled > 0 && used.throttled <= used.periods, "{used:?}");
    // It cannot use more than it is given: the share, and one quota for a period that has begun.
    let most = used.span as f64 * used.share + 2.0 * used.period as f64 * used.share;
    assert!(used.on_core.is_none_or(|nanos| nanos > 0 && nanos as f64 <= most * 1.5), "{used:?}");
}

#[test]
fn the_time_stamp_counter_can_be_the_guests() {
    let directory = tempfile::tempdir().unwrap();
    let counting = counting(directory.path());
    for own in [true, false] {
        let mut config = guest("g", 0, 1, ENOUGH);
        config.own_tsc = own;
        config.order.programs = vec![program(0, &[&counting], "0")];
        let Some((report, machine, took)) = run(&mut config, 4.0, |_, _| {}) else { return };
        assert_eq!(report.programs[0].ending, Ending::Exited(0));
        let said = std::fs::read_to_string(machine.shared("0.stdout")).unwrap();
        let slept: u64 = said.split(' ').next().unwrap().parse().unwrap();
        // Fifty milliseconds take two hundred on the machine, whose counter has at least a tick per nanosecond.
        let expected = if own { 50_000_000..(took / 4.0 * 1e9) as u64 } else { 200_000_000..u64::MAX };
        assert!(expected.contains(&slept), "{said} in {took} s");
    }
}

#[test]
fn the_factor_can_rise_while_two_hosts_communicate() {
    let mut config = guest("g", 0, 2, ENOUGH);
    config.order.programs = vec![program(0, &["ping", "-c", "3", "-i", "1", "10.0.0.2"], "0")];
    let mut raised = None;
    let ran = run(&mut config, 1.0, |machine, pace| {
        let now = host_now();
        match raised {
            None if now - pace.current.host > 300_000_000 => {
                pace.change(now + 20_000_000, Tdf::new(2.0).unwrap());
                dilation::follow([machine], pace);
                raised = Some((now + 20_000_000 - pace.current.host, false));
            }
            Some((after, false)) if now >= pace.next.unwrap().host => {
                dilation::nudge([machine]);
                raised = Some((after, true));
            }
            _ => {}
        }
    });
    let Some((report, machine, took)) = ran else { return };
    assert_eq!(report.programs[0].ending, Ending::Exited(0));
    let said = std::fs::read_to_string(machine.shared("0.stdout")).unwrap();
    assert!(said.contains("3 received"), "{said}");
    let before = raised.unwrap().0 as f64 / 1e9;
    // Three pings last 2 s.
    assert!(took >= before + 2.0 * (2.0 - before), "{took} s, raised after {before} s");
}
