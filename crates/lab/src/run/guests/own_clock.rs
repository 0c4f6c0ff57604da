//! Guests with a dilation factor of their own: all times of their orders by their own clocks, and all times of their reports by the run's.
//!
//! A scenario and its results have one time, the network's. Only what programs read and print themselves is by the guest's clock.

use warpline_core::dilation::{Clocks, Tdf};
use warpline_guest::order::{Order, Report, Role, Sample, TcpInfo};
use warpline_scenario::{self as scenario, Scenario};

use super::hosts_of;

/// The clock of a machine beside the run's.
pub(super) fn clocks(scenario: &Scenario, machine: &str) -> Clocks {
    let own = hosts_of(scenario, machine).find_map(|(_, guest)| guest.tdf);
    let run = match scenario.clock.tdf {
        Some(scenario::Tdf::Factor(factor)) => Some(factor),
        // The check refuses a factor of a guest's own beside a factor that changes.
        Some(scenario::Tdf::Auto) | None => None,
    };
    let both = run.and_then(Tdf::new).zip(own.and_then(Tdf::new));
    both.map_or(Clocks::default(), |(run, own)| Clocks::new(run, own))
}

/// Sets the times of an order, which are the run's, to the machine's own.
pub(super) fn set(order: &mut Order, clocks: Clocks) {
    let own = |at: &mut u64| *at = clocks.to_own(*at);
    let Order { end, warmup, interval, flows, programs, conditions, .. } = order;
    [end, warmup, interval].into_iter().for_each(own);
    for flow in flows {
        own(&mut flow.start);
        flow.stop.iter_mut().for_each(own);
        if let Role::Request { pause, .. } = &mut flow.role {
            own(pause);
        }
    }
    programs.iter_mut().for_each(|program| own(&mut program.start));
    for condition in conditions {
        own(&mut condition.start);
        own(&mut condition.limit);
    }
}

/// Sets the times of a report, which are the machine's own, to the run's.
pub(super) fn read(report: &mut Report, clocks: Clocks) {
    let run = |at: &mut u64| *at = clocks.to_run(*at);
    for flow in &mut report.flows {
        [&mut flow.connected, &mut flow.finished].into_iter().flatten().for_each(run);
        for request in &mut flow.requests {
            run(&mut request.asked);
            request.answered.iter_mut().for_each(run);
        }
        read_info(&mut flow.warm, clocks);
        read_info(&mut flow.last, clocks);
    }
    for program in &mut report.programs {
        [&mut program.started, &mut program.ended].into_iter().flatten().for_each(run);
    }
}

/// Sets the times of a sample to the run's. `interval` is how often the run takes one, in nanoseconds. The sample's time becomes the nearest
/// multiple of that. Both conversions round down, so it would otherwise lie a little before the instant that it stands for.
pub(super) fn read_sample(sample: &mut Sample, clocks: Clocks, interval: u64) {
    let time = clocks.to_run(sample.time);
    sample.time = (time + interval / 2).checked_div(interval).map_or(time, |number| number * interval);
    read_info(&mut sample.info, clocks);
}

/// Sets what a kernel has timed, in microseconds, to the run's time.
fn read_info(info: &mut TcpInfo, clocks: Clocks) {
    let TcpInfo { rtt, rttvar, min_rtt, rto, window_limited, .. } = info;
    for micros in [rtt, rttvar, min_rtt, rto] {
        // All ones stand for a time that is not known.
        if *micros != u32::MAX {
            *micros = u32::try_from(clocks.to_run(u64::from(*micros) * 1000) / 1000).unwrap_or(u32::MAX - 1);
        }
    }
    *window_limited = clocks.to_run(*window_limited);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn scenario(keys: &str) -> Scenario {
        let text = format!(
            "duration = \"4s\"\nwarmup = \"1s\"\nclock = {{ mode = \"dilated\", tdf = 10 }}\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
             [[host]]\nname = \"a\"\nendpoint = \"guest\"\n{keys}\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\n"
        );
        Scenario::from_toml("test", &text, &[]).unwrap()
    }

    #[test]
    fn orders_are_by_the_guests_clock_and_reports_by_the_runs() {
        let scenario = scenario("tdf = 5");
        assert_eq!(clocks(&scenario, "b"), Clocks::default());
        let clocks = clocks(&scenario, "a");
        let mut order = Order { end: 4 * SECOND, warmup: SECOND, interval: SECOND / 10, ..Order::default() };
        set(&mut order, clocks);
        assert_eq!((order.end, order.warmup, order.interval), (8 * SECOND, 2 * SECOND, SECOND / 5));
        let info = TcpInfo { rtt: 80_000, min_rtt: u32::MAX, ..TcpInfo::default() };
        let mut sample = Sample { time: 3 * SECOND, id: 0, info };
        read_sample(&mut sample, clocks, SECOND / 10);
        assert_eq!((sample.time, sample.info.rtt, sample.info.min_rtt), (3 * SECOND / 2, 40_000, u32::MAX));
    }

    #[test]
    fn samples_are_at_the_runs_instants_whatever_the_factor() {
        let clocks = clocks(&scenario("tdf = 3"), "a");
        let interval = SECOND / 10;
        let mut order = Order { interval, ..Order::default() };
        set(&mut order, clocks);
        for number in [1, 3, 10, 40] {
            let mut sample = Sample { time: number * order.interval, id: 0, info: TcpInfo::default() };
            read_sample(&mut sample, clocks, interval);
            assert_eq!(sample.time, number * interval);
        }
    }

    #[test]
    fn without_a_factor_of_its_own_nothing_changes() {
        let clocks = clocks(&scenario(""), "a");
        let before = Order { end: 7, warmup: 3, interval: 2, ..Order::default() };
        let mut order = before.clone();
        set(&mut order, clocks);
        assert_eq!(order, before);
    }
}
