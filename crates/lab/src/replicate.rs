//! Replications: one scenario under several seeds, on all cores, with 95 % confidence intervals.

use rayon::prelude::*;
use warpline_net::Control;

use crate::results::Replications;
use crate::run::{Progress, RunError, RunOptions, RunOutcome, run};
use crate::scenario::Scenario;

/// What replications gave.
#[derive(Debug)]
pub struct Replicated {
    /// The runs, in the order of the seeds; a run that was stopped before it began is missing.
    pub runs: Vec<RunOutcome>,
    /// Means, standard deviations and confidence intervals over the runs that are complete.
    pub replications: Replications,
    /// Whether every run came to its end.
    pub complete: bool,
}

/// Runs a scenario once per seed, `jobs` at a time (0: one per core).
///
/// With an `out` directory in the options each run gets a directory of its own in it, "seed-N". `observe` is called with the
/// number of the run, from several threads; what it answers counts for that run.
///
/// # Errors
/// The first error of any run, in the order of the seeds.
pub fn replicate(
    scenario: &Scenario,
    seeds: &[u64],
    jobs: usize,
    options: &RunOptions,
    observe: &(dyn Fn(usize, &Progress) -> Control + Sync),
) -> Result<Replicated, RunError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| RunError::Build(format!("no threads for the replications: {error}")))?;
    let one = |(index, &seed): (usize, &u64)| -> Result<Option<RunOutcome>, RunError> {
        if observe(index, &Progress::default()) == Control::Stop {
            return Ok(None);
        }
        let scenario = Scenario { seed, replicate: None, ..scenario.clone() };
        let mut options = options.clone();
        options.out = options.out.map(|out| out.join(format!("seed-{seed}")));
        run(&scenario, &options, &mut |progress| observe(index, progress)).map(Some)
    };
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out)
            .map_err(|error| RunError::Build(format!("cannot create {}: {error}", out.display())))?;
    }
    let results: Vec<_> = pool.install(|| seeds.par_iter().enumerate().map(one).collect());
    let mut runs = Vec::with_capacity(seeds.len());
    for result in results {
        runs.extend(result?);
    }
    let summaries: Vec<_> = runs.iter().filter(|run| run.complete).map(|run| run.summary.clone()).collect();
    let complete = summaries.len() == seeds.len();
    Ok(Replicated { replications: Replications::of(&summaries), runs, complete })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSY: &str = r#"
        duration = "5s"
        link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms", loss = { kind = "bernoulli", probability = 0.02 } }]
        flow = [{ from = "a", to = "b" }]
    "#;

    #[test]
    fn seeds_differ_and_one_seed_is_the_same_on_any_number_of_threads() {
        let scenario = Scenario::from_toml("lossy", LOSSY, &[]).unwrap_or_else(|error| panic!("{error}"));
        let all = |jobs| {
            replicate(&scenario, &[1, 2, 3], jobs, &RunOptions::default(), &|_, _| Control::Continue).unwrap()
        };
        let (one, two) = (all(1), all(2));
        let goodputs = |replicated: &Replicated| -> Vec<f64> {
            replicated.runs.iter().map(|run| run.summary.totals.goodput_bps).collect()
        };
        assert_eq!(goodputs(&one), goodputs(&two));
        assert!(goodputs(&one)[0] != goodputs(&one)[1]);
        assert!(one.complete);
    }

    #[test]
    fn a_stopped_run_leaves_the_others_alone() {
        let scenario = Scenario::from_toml("lossy", LOSSY, &[]).unwrap_or_else(|error| panic!("{error}"));
        let stop_second = |index: usize, _: &Progress| {
            if index == 1 { Control::Stop } else { Control::Continue }
        };
        let some = replicate(&scenario, &[1, 2, 3], 2, &RunOptions::default(), &stop_second).unwrap();
        assert!(!some.complete);
        assert_eq!(some.runs.len(), 2);
    }
}
