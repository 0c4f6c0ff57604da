//! Measures how fast guests run in lock-step: `cargo run --release -p warpline-guest --example lockstep_speed [PAIRS] [SECONDS] [Mbit/s] [GUESTS]
//! [FLOWS] [INTERRUPTS] [DELAY]`: pairs of hosts on each guest; how many of these have a flow (default: all); microseconds between two interrupts
//! of network cards with offloads (`-`, the default: no offloads); the delay of a link in microseconds (default: 10,000). Its queue holds
//! a round trip.
//!
//! Prints packets per second of the machine's time, entries into user mode and turns per packet, time to boot and memory.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it measures")]
#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "shared with the tests"
)]
#[path = "../tests/machine/bed.rs"]
mod bed;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use bed::{Bed, Path, bulk, guest};
    use warpline_core::{TimeDelta, Timestamp};
    use warpline_guest::order::CardOrder;
    use warpline_guest::time::host_now;
    use warpline_guest::{Kernel, LockStep};

    let numbers: Vec<Option<u64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let given = |index: usize| numbers.get(index).copied().flatten();
    let number = |index: usize, default: u64| given(index).unwrap_or(default);
    let (pairs, seconds, rate, guests) = (number(0, 1) as u32, number(1, 10), number(2, 100), number(3, 1));
    let flows = number(4, u64::from(pairs)) as u32;
    let configs: Vec<_> = (0..guests as u32)
        .map(|index| {
            let first = index * 2 * pairs;
            let mut config = guest(&format!("g{index}"), first, 2 * pairs, seconds as f64);
            config.memory = 1 << 30;
            let flows =
                (0..flows.min(pairs)).flat_map(|n| bulk(n, 2 * n, 2 * n + 1, first + 2 * n + 1, None));
            config.order.flows = flows.collect();
            config.order.cards = given(5).map(|us| CardOrder { interval: us * 1000 });
            config
        })
        .collect();
    let delay = number(6, 10_000);
    let path = Path { rate: rate * 1_000_000, delay: TimeDelta::from_micros(delay), queue: rate * delay / 4 };
    let mut bed = Bed::new(guests as u32 * 2 * pairs, path);
    let begun = host_now();
    let mut lockstep =
        LockStep::boot(&Kernel::find()?, &configs, path.delay, &mut || true)?.ok_or("stopped")?;
    let booted = host_now();
    let end = Timestamp::from_secs(seconds);
    lockstep.run(&mut bed, end, |_, _, _| true)?;
    let ran = host_now();
    lockstep.finish(end, false, &mut || true)?;
    let span = |from: u64, to: u64| (to - from) as f64 / 1e9;
    let wall = span(booted, ran);
    println!(
        "boot {:.3} s, run {wall:.3} s, {} packets, {:.0} packets/s",
        span(begun, booted),
        bed.datagrams,
        bed.datagrams as f64 / wall
    );
    for machine in lockstep.machines() {
        let (statistics, report) = (machine.statistics(), machine.report()?);
        let packets = (statistics.sent + statistics.received) as f64 / 2.0;
        let goodput: u64 = report.flows.iter().step_by(2).map(|flow| flow.last.received).sum();
        println!(
            "{}: {:.3} entries, {:.3} turns per packet; {:.1} kB a host; goodput {:.2} Mbit/s",
            machine.name(),
            statistics.entries as f64 / packets,
            statistics.handovers as f64 / packets,
            report.hosts_memory as f64 / 1e3 / f64::from(2 * pairs),
            goodput as f64 * 8.0 / 1e6 / seconds as f64,
        );
        if std::env::var_os("DEBUG").is_some() {
            for flow in report.flows.iter() {
                println!("{:?}", flow.last);
            }
        }
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
