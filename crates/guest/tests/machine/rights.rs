//! Programs in a guest cannot attack the agent, which has all capabilities, nor make the kernel start a program that has them.

use warpline_core::Timestamp;
use warpline_guest::LockStep;
use warpline_guest::lockstep::Ended;

use crate::bed::{Bed, Path, guest, kernel, program, seconds};

const TRIED: &str = "
tried() { if (eval \"$2\") >/dev/null 2>&1; then echo \"$1: done\"; else echo \"$1: refused\"; fi; }
tried agent 'readlink /proc/1/exe'
tried environment 'cat /proc/1/environ'
tried core 'echo /bin/true > /proc/sys/kernel/core_pattern'
tried modprobe 'echo /bin/true > /proc/sys/kernel/modprobe'
tried helper 'echo /bin/true > /sys/kernel/uevent_helper'
tried open 'mount -o remount,rw /proc/sys'
tried own 'readlink /proc/$$/exe'
tried sack 'echo 0 > /proc/sys/net/ipv4/tcp_sack'
cat /proc/sys/net/ipv4/tcp_sack
";

#[test]
fn programs_can_change_the_settings_of_their_network_but_not_the_kernels_or_the_agent() {
    let Some(kernel) = kernel() else { return };
    let mut config = guest("g", 0, 2, 5.0);
    // The agent has made its own settings before.
    config.order.hosts[1].sysctl = vec![("net.ipv4.tcp_ecn".to_owned(), "1".to_owned())];
    let mut other = program(1, &["sh", "-c", "cd /proc/sys/net/ipv4; cat tcp_sack tcp_ecn"], "other");
    other.start = seconds(3.0);
    config.order.programs = vec![program(0, &["sh", "-c", TRIED], "tried"), other];
    let path = Path::new(1_000_000, 10, 10_000);
    let mut bed = Bed::new(2, path);
    let end = Timestamp::from_nanos(config.order.end);
    let mut lockstep = LockStep::boot(&kernel, &[config], path.delay, &mut || true).unwrap().unwrap();
    assert_eq!(lockstep.run(&mut bed, end, |_, _, _| true).unwrap(), Ended::Reached);
    lockstep.finish(end, false, &mut || true).unwrap();
    let machine = lockstep.machines().next().unwrap();
    let read = |name: &str| std::fs::read_to_string(machine.shared(name)).unwrap();
    assert_eq!(
        read("tried.stdout"),
        "agent: refused\nenvironment: refused\ncore: refused\nmodprobe: refused\nhelper: refused\nopen: refused\nown: done\n\
         sack: done\n0\n",
        "{}",
        read("tried.stderr")
    );
    // Each host has its own settings.
    assert_eq!(read("other.stdout"), "1\n1\n");
}
