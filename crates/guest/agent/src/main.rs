//! The first process of a guest: sets up hosts, carries out its order at the ordered times, reports, and powers off.
//!
//! One thread waits for the next thing to do or for a program to end. Each end of a built-in flow has a thread, which sleeps inside the
//! kernel as long as it can. The library describes orders and reports.

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod conditions;
#[cfg(target_os = "linux")]
mod console;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod modules;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod netlink;
// One file for both: the agent is built by itself, and needs nothing else of that crate.
#[cfg(target_os = "linux")]
#[expect(unreachable_pub, reason = "in its own crate they are public")]
#[path = "../../../core/src/pattern.rs"]
mod pattern;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod queues;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod samples;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
mod tcp_info;
#[cfg(target_os = "linux")]
mod terminals;

#[cfg(target_os = "linux")]
fn main() {
    // Outside a guest it would mount things over the machine's own and switch it off.
    if std::process::id() != 1 || !mounts::is_guest() {
        #[allow(clippy::print_stderr, reason = "a message for users who start it by hand")]
        {
            eprintln!("error: this is the first process of Warpline's guests; it does nothing elsewhere");
        }
        std::process::exit(2);
    }
    run::run();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
