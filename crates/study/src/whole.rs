//! Whole runs, and runs that can be repeated.

use warpline_lab::run::{Broken, Progress, RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_scenario::Scenario;

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
    repeatable(
        options.clone(),
        |options| whole_run(scenario, options, observe),
        |outcome| outcome.summary.guests.as_ref().is_none_or(|guests| guests.pushes == 0),
    )
}

/// Makes something until it can be repeated.
fn repeatable<T>(
    mut options: RunOptions,
    mut make: impl FnMut(&RunOptions) -> Result<T, Fault>,
    is_repeatable: impl Fn(&T) -> bool,
) -> Result<T, Fault> {
    for _ in 0..TRIES {
        let made = make(&options)?;
        if is_repeatable(&made) {
            return Ok(made);
        }
        // What is there now is what this try has written.
        options.force = true;
    }
    Err(Fault::Wrong(format!(
        "guests had to be pushed on in each of {TRIES} runs, so none of them can be repeated: start again when the machine is less busy, or shorten what a program \
         computes without a system call"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cannot_be_repeated_is_made_again_and_not_for_ever() {
        let mut made = Vec::new();
        let make = |options: &RunOptions| {
            made.push(options.force);
            Ok::<usize, Fault>(made.len())
        };
        assert_eq!(repeatable(RunOptions::default(), make, |number| *number == 3).unwrap(), 3);
        // From the second time on it replaces what the first has written.
        assert_eq!(made, [false, true, true]);
        let never = repeatable(RunOptions::default(), |_| Ok(()), |_: &()| false).unwrap_err().to_string();
        assert!(never.contains("in each of 5 runs"), "{never}");
        let stopped = repeatable(RunOptions::default(), |_| Err(Fault::Stopped), |_: &()| false);
        assert!(matches!(stopped, Err(Fault::Stopped)), "{stopped:?}");
    }
}
