//! Problems in runs of several seeds: each is shown once, with the seeds that had it.

use std::path::Path;

use warpline_results::{Run, spoken_seeds};

/// Problems with their seeds, in the order in which they first occurred.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    /// The text that identifies the problem, the text to show, and the seeds.
    entries: Vec<(String, String, Vec<u64>)>,
}

impl Mishaps {
    /// Adds a problem of a seed. Its run directory, if there is one, holds the evidence.
    pub(crate) fn add(&mut self, seed: u64, text: &str, directory: Option<&Path>) {
        let place = directory.map(|directory| directory.display().to_string()).unwrap_or_default();
        // The same problem in another directory is the same problem.
        let key = if place.is_empty() { text.to_owned() } else { text.replace(&place, "") };
        if let Some((.., seeds)) = self.entries.iter_mut().find(|(known, ..)| *known == key) {
            seeds.push(seed);
            return;
        }
        let named = !place.is_empty() && text.contains(&place);
        let shown = match directory.filter(|_| !named).and_then(evidence) {
            Some(evidence) => format!("{}; {evidence}", text.trim_end()),
            None => text.to_owned(),
        };
        self.entries.push((key, shown, vec![seed]));
    }

    /// The lines to show.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(_, text, seeds): &(String, String, Vec<u64>)| {
            let which = if seeds.len() == 1 { "seed" } else { "seeds" };
            // Texts of several lines, such as errors with source positions, keep their form.
            format!("{which} {}: {}", spoken_seeds(seeds), text.strip_prefix("error: ").unwrap_or(text))
        };
        self.entries.iter().map(line).collect()
    }

    /// How many seeds had a problem.
    pub(crate) fn seeds(&self) -> usize {
        let mut seeds: Vec<u64> = self.entries.iter().flat_map(|(.., seeds)| seeds).copied().collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.len()
    }
}

/// The evidence in a run directory: a capture, or else the programs' output.
fn evidence(directory: &Path) -> Option<String> {
    let recordings = Run::open(directory).and_then(|run| run.recordings()).unwrap_or_default();
    let capture = recordings.into_iter().find(|path| path.extension().is_some_and(|end| end == "pcapng"));
    match capture {
        Some(capture) => Some(format!("capture: {}", capture.display())),
        None => {
            let output = directory.join("programs");
            output.is_dir().then(|| format!("output: {}", output.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_same_problem_of_several_seeds_is_one_line() {
        let parent = tempfile::tempdir().unwrap();
        let directory = |seed: u64| {
            let directory = parent.path().join(format!("seed-{seed}"));
            fs::create_dir_all(directory.join("programs")).unwrap();
            directory
        };
        let mut mishaps = Mishaps::default();
        for seed in [1, 2, 3, 5] {
            mishaps.add(seed, "program client of host a ended with exit code 1", Some(&directory(seed)));
        }
        let seven = directory(7);
        mishaps.add(7, &format!("error: cannot read {}/x", seven.display()), Some(&seven));
        let nine = directory(9);
        mishaps.add(9, &format!("error: cannot read {}/x", nine.display()), Some(&nine));
        mishaps.add(9, "no place", None);
        let output = directory(1).join("programs");
        assert_eq!(
            mishaps.lines(),
            [
                format!(
                    "seeds 1 to 3, 5: program client of host a ended with exit code 1; output: {}",
                    output.display()
                ),
                format!("seeds 7, 9: cannot read {}/x", seven.display()),
                "seed 9: no place".to_owned(),
            ]
        );
        assert_eq!(mishaps.seeds(), 6);
    }
}
