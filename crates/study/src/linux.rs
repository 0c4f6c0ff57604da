//! Linux and the model on equal terms: the congestion controls that both have, and the settings with which each is given what the other has.
//!
//! `docs/src/agreement.md` says why ("What makes it fair").

use warpline_lab::run::{Broken, Progress, RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

/// TCP options with which the model is like the kernel of guests. The kernel's clock has a hundred ticks a second. Its receivers acknowledge the
/// first segments one by one, and open their window step by step. Of the guests' buffer ([`BUFFERS`]) they advertise half (`tcp_adv_win_scale`).
pub(crate) const MODEL_TCP: [(&str, &str); 4] = [
    ("tick", "\"10ms\""),
    ("quick_acks", "16"),
    ("receive_buffer", "\"16MiB\""),
    ("receive_ssthresh", "\"65535B\""),
];

/// These options as a table of TOML.
pub(crate) fn model_tcp() -> String {
    let options: Vec<String> = MODEL_TCP.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", options.join(", "))
}

/// Settings of a guest whose buffers are never the limit, as the model's are not: smallest, first and largest size.
pub(crate) const BUFFERS: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 33554432 33554432"), ("net.ipv4.tcp_wmem", "4096 33554432 33554432")];

/// TCP options of the model that are switches, and the kernel's settings for the same.
pub(crate) const SWITCHES: [(&str, &str); 4] = [
    ("sack", "net.ipv4.tcp_sack"),
    ("timestamps", "net.ipv4.tcp_timestamps"),
    ("window_scaling", "net.ipv4.tcp_window_scaling"),
    ("ecn", "net.ipv4.tcp_ecn"),
];

/// A congestion control of Linux 6.1, and how the model is given the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Algorithm {
    /// Its name, in Linux and in scenarios.
    pub(crate) name: &'static str,
    /// The model's, as scenarios write it.
    pub(crate) model: &'static str,
    /// About how many times Reno's goodput it has where packets are lost at random. It only decides how long runs are.
    pub(crate) times: f64,
    /// Whether it draws random numbers, so that runs without losses differ, too.
    pub(crate) draws: bool,
}

/// One that draws nothing and has no parameters.
const fn plain(name: &'static str, times: f64) -> Algorithm {
    Algorithm { name, model: name, times, draws: false }
}
/// One that draws random numbers.
const fn drawing(name: &'static str, times: f64) -> Algorithm {
    Algorithm { draws: true, ..plain(name, times) }
}

/// Every congestion control of Linux 6.1.
pub(crate) const ALGORITHMS: &[Algorithm] = &[
    plain("reno", 1.0),
    plain("cubic", 1.0),
    drawing("bbr", f64::INFINITY),
    plain("vegas", 1.0),
    plain("bic", 1.7),
    plain("htcp", 1.5),
    // The kernel's Westwood computes in ticks of its clock.
    Algorithm { model: "westwood:tick=10ms", ..plain("westwood", 2.5) },
    plain("highspeed", 1.0),
    plain("scalable", 2.5),
    plain("illinois", 3.0),
    plain("veno", 1.7),
    plain("yeah", 1.5),
    // The kernel's Hybla counts acknowledgements, the model's by itself bytes.
    Algorithm { model: "hybla:counting=acks", ..plain("hybla", 4.0) },
    drawing("cdg", 1.0),
    drawing("nv", 1.0),
    plain("lp", 1.0),
    plain("dctcp", 1.0),
];

/// The congestion control of this name, as the kernel and scenarios call it; none if Linux or the model does not have it.
pub(crate) fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

/// How often a run is begun in which guests have to be pushed on.
const TRIES: u32 = 5;

/// Why a run has no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// It could not be made.
    #[error(transparent)]
    Run(RunError),
    /// It came to an end, but its results are not those of its scenario.
    #[error("{0}")]
    Wrong(String),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

/// Makes a whole run.
///
/// # Errors
/// If it cannot be made, breaks off, or is stopped.
pub(crate) fn whole_run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, Fault> {
    let outcome = run(scenario, options, observe).map_err(Fault::Run)?;
    match outcome.broken {
        Some(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why)) => Err(Fault::Wrong(why)),
        None if outcome.complete => Ok(outcome),
        None => Err(Fault::Stopped),
    }
}

/// Makes a whole run that can be repeated. On a busy machine a guest in lock-step may have to be pushed on, and then the run is begun again.
///
/// # Errors
/// As those of [`whole_run`]; and if guests were pushed on each time.
pub(crate) fn repeatable_run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, Fault> {
    let make = |again: bool| {
        // What was written before is its own.
        whole_run(scenario, &RunOptions { force: options.force || again, ..options.clone() }, observe)
    };
    repeatable(make, |outcome| outcome.summary.guests.as_ref().is_none_or(|guests| guests.pushes == 0))
}

/// Makes something until it can be repeated. `make` hears whether it was made before.
fn repeatable<T>(
    mut make: impl FnMut(bool) -> Result<T, Fault>,
    is_repeatable: impl Fn(&T) -> bool,
) -> Result<T, Fault> {
    for number in 0..TRIES {
        let made = make(number > 0)?;
        if is_repeatable(&made) {
            return Ok(made);
        }
    }
    Err(Fault::Wrong(format!(
        "no run can be repeated: in each of {TRIES}, the machine's clock had to push a guest on; the machine is too busy, or a program computes for \
         seconds without a system call"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cannot_be_repeated_is_made_again_and_not_for_ever() {
        let mut made = Vec::new();
        let make = |again: bool| {
            made.push(again);
            Ok::<usize, Fault>(made.len())
        };
        assert_eq!(repeatable(make, |number| *number == 3).unwrap(), 3);
        assert_eq!(made, [false, true, true]);
        let never = repeatable(|_| Ok(()), |_: &()| false).unwrap_err().to_string();
        assert!(never.contains("in each of 5"), "{never}");
        let stopped = repeatable(|_| Err(Fault::Stopped), |_: &()| false);
        assert!(matches!(stopped, Err(Fault::Stopped)), "{stopped:?}");
    }
}
