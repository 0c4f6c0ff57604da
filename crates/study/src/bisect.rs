//! The first of several guest kernels with which a scenario behaves differently.
//!
//! The kernels are in order, such as the versions of a series or the commits of a branch. The scenario is run with the first and the last of them, and
//! if they differ, with those between that halve what is left. It behaves alike if the same conditions hold; or, without conditions, if all
//! captures have the same packets at the same times. Packets are only compared of runs that can be repeated: of others they differ by chance.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use pcap_file::pcapng::{Block, PcapNgReader};
use serde::Serialize;
use warpline_lab::run::{Progress, RunError, RunOptions, load};
use warpline_net::Control;
use warpline_results::{Condition, GuestSummary};
use warpline_scenario::{ClockMode, Diagnostics, Endpoint, Source};

use crate::whole::{Fault, repeatable_run, whole_run};

/// What to look for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario.
    pub file: PathBuf,
    /// Changes to it, as `warpline run --set` takes them.
    pub sets: Vec<String>,
    /// The guests whose kernel changes; all if none.
    pub hosts: Vec<String>,
    /// Conditions besides those of the scenario.
    pub expect: Vec<String>,
    /// The directory for the runs, one for each kernel that was tried.
    pub out: PathBuf,
    /// Whether existing runs there are replaced.
    pub force: bool,
}

/// What came of a run with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The kernel, as it was named.
    pub kernel: String,
    /// Its version, as the run's summary has it.
    pub version: String,
    /// Whether it behaves as with the first kernel.
    pub alike: bool,
    /// The conditions that did not hold, or the first packet that differs from the first kernel's; and if the run cannot be repeated, that.
    pub told: Vec<String>,
    /// The run.
    pub run: PathBuf,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// All runs, in the order of the kernels.
    pub trials: Vec<Trial>,
    /// The last kernel before the change, and the first after it; none if the last one behaves as the first.
    pub change: Option<(String, String)>,
}

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// The scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// What was asked for does not fit the scenario.
    #[error("{0}")]
    Plan(String),
    /// A run failed.
    #[error("with kernel `{kernel}`: {source}")]
    Run {
        /// The kernel.
        kernel: String,
        /// Why.
        source: RunError,
    },
    /// A run broke off, or cannot be repeated.
    #[error("with kernel `{kernel}`: {why}")]
    Broken {
        /// The kernel.
        kernel: String,
        /// Why.
        why: String,
    },
    /// A kernel could not be had.
    #[error("{0}")]
    Kernel(String),
    /// A capture could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Capture {
        /// The capture.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

/// Looks for the change between `count` kernels. `kernel` prepares the kernel with a number, and returns its name for scenarios. `observe` gets the
/// number of the kernel that runs and the share of the run that is done. It can stop the search.
///
/// # Errors
/// If the scenario or the plan is wrong, a kernel cannot be had, or a run fails.
pub fn bisect(
    plan: &Plan,
    count: usize,
    kernel: &mut dyn FnMut(usize) -> Result<String, BisectError>,
    observe: &mut dyn FnMut(usize, f64) -> Control,
) -> Result<Found, BisectError> {
    let source = Source::read(&plan.file)?;
    let scenario = load(&source, &plan.sets)?;
    let guests: Vec<&str> = scenario.guests().map(|(host, _)| host.name.as_str()).collect();
    if let Some(wrong) = plan.hosts.iter().find(|host| !guests.contains(&host.as_str())) {
        return Err(BisectError::Plan(format!(
            "`{wrong}` is no guest of the scenario; guests: {}",
            guests.join(", ")
        )));
    }
    if guests.is_empty() {
        return Err(BisectError::Plan("the scenario has no guests, so it has no kernel".to_owned()));
    }
    let chosen: Vec<String> = match plan.hosts.is_empty() {
        true => guests.iter().map(|name| (*name).to_owned()).collect(),
        false => plan.hosts.clone(),
    };
    let mut texts = scenario.expect.clone();
    texts.extend(plan.expect.iter().cloned());
    let conditions = texts.iter().map(|text| {
        Condition::parse(text).map_err(|wrong| {
            BisectError::Plan(format!("`{text}`: {}", [vec![wrong.message], wrong.help].concat().join("; ")))
        })
    });
    let conditions = conditions.collect::<Result<Vec<Condition>, _>>()?;
    if conditions.is_empty() && scenario.clock.mode != ClockMode::Virtual {
        return Err(BisectError::Plan(format!(
            "under the {} clock packets never come at the same times twice: give conditions (`expect`, or --expect), or run it under the virtual clock",
            scenario.clock.mode.name()
        )));
    }
    let make = if conditions.is_empty() { repeatable_run } else { whole_run };
    let mut trials: Vec<Option<Trial>> = vec![None; count];
    let mut first: Option<(Vec<bool>, PathBuf)> = None;
    let change = search(count, |number| {
        let name = kernel(number)?;
        let mut scenario = load(&source, &plan.sets)?;
        for host in scenario.host.iter_mut().filter(|host| chosen.contains(&host.name)) {
            if let Endpoint::Guest(guest) = &mut host.endpoint {
                guest.kernel = Some(name.clone());
            }
        }
        let out = plan.out.join(name.replace('/', "_"));
        let options =
            RunOptions { out: Some(out.clone()), force: plan.force, report: true, ..RunOptions::default() };
        let ran = make(&scenario, &options, &mut |progress: &Progress| {
            observe(number, progress.simulated.as_secs_f64() / progress.duration.as_secs_f64().max(1e-9))
        });
        let outcome = ran.map_err(|fault| match fault {
            Fault::Run(source) => BisectError::Run { kernel: name.clone(), source },
            Fault::Wrong(why) => BisectError::Broken { kernel: name.clone(), why },
            Fault::Stopped => BisectError::Stopped,
        })?;
        let version = outcome.summary.guests.as_ref().map(|guests| guests.kernel.clone()).unwrap_or_default();
        let judged: Vec<Result<(), String>> =
            conditions.iter().map(|condition| condition.judge(&outcome.summary)).collect();
        let held: Vec<bool> = judged.iter().map(Result::is_ok).collect();
        let mut told: Vec<String> = judged.into_iter().filter_map(Result::err).collect();
        told.extend(outcome.summary.guests.as_ref().and_then(GuestSummary::pushed));
        let (first_held, first_run) = first.get_or_insert_with(|| (held.clone(), out.clone()));
        let mut alike = *first_held == held;
        if conditions.is_empty() {
            if captures(&out)?.is_empty() {
                let help = "it has no conditions (`expect`, or --expect) and no captures (record = [\"pcap\"] of a link)";
                return Err(BisectError::Plan(format!("nothing says how the scenario behaves: {help}")));
            }
            let different = first_difference(first_run, &out)?;
            alike = different.is_none();
            told.extend(different);
        }
        trials[number] = Some(Trial { kernel: name, version, alike, told, run: out });
        Ok(alike)
    })?;
    let named = |number: usize| trials[number].as_ref().map(|trial| trial.kernel.clone()).unwrap_or_default();
    let change = change.map(|number| (named(number - 1), named(number)));
    Ok(Found { trials: trials.into_iter().flatten().collect(), change })
}

/// The first of `count` things that is not like the first one, if the last is not; `is_alike` says that of a number. The one before it is asked, too.
fn search<E>(count: usize, mut is_alike: impl FnMut(usize) -> Result<bool, E>) -> Result<Option<usize>, E> {
    if count == 0 || !is_alike(0)? || count == 1 || is_alike(count - 1)? {
        return Ok(None);
    }
    let (mut alike, mut different) = (0, count - 1);
    while different - alike > 1 {
        let middle = alike + (different - alike) / 2;
        if is_alike(middle)? {
            alike = middle;
        } else {
            different = middle;
        }
    }
    Ok(Some(different))
}

/// The names of a run's captures.
fn captures(run: &Path) -> Result<Vec<String>, BisectError> {
    let entries =
        fs::read_dir(run).map_err(|source| BisectError::Capture { path: run.to_owned(), source })?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".pcapng")).collect();
    names.sort();
    Ok(names)
}

/// A packet of a capture: its time in nanoseconds, and its bytes.
type Packet = (u128, Vec<u8>);

/// The earliest packet of all captures that is not the same in two runs, described; none if all are.
fn first_difference(one: &Path, other: &Path) -> Result<Option<String>, BisectError> {
    let mut earliest: Option<(u128, String)> = None;
    for name in captures(one)? {
        let (left, right) = (packets(&one.join(&name))?, packets(&other.join(&name))?);
        let Some(number) =
            (0..left.len().max(right.len())).find(|&number| left.get(number) != right.get(number))
        else {
            continue;
        };
        let shown = |packet: Option<&Packet>| match packet {
            Some((at, bytes)) => format!("{} bytes at {:.9} s", bytes.len(), *at as f64 / 1e9),
            None => "nothing".to_owned(),
        };
        let (left, right) = (left.get(number), right.get(number));
        let at = [left, right].into_iter().flatten().map(|(at, _)| *at).min().unwrap_or_default();
        let what = format!(
            "{name}, packet {}: {}, and with the first kernel {}",
            number + 1,
            shown(right),
            shown(left)
        );
        if earliest.as_ref().is_none_or(|(best, _)| at < *best) {
            earliest = Some((at, what));
        }
    }
    Ok(earliest.map(|(_, what)| what))
}

fn packets(path: &Path) -> Result<Vec<Packet>, BisectError> {
    let wrong = |source| BisectError::Capture { path: path.to_owned(), source };
    let mut reader = PcapNgReader::new(BufReader::new(File::open(path).map_err(wrong)?))
        .map_err(|error| wrong(io::Error::other(error)))?;
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let (Block::EnhancedPacket(packet), _) = block.map_err(|error| wrong(io::Error::other(error)))? {
            packets.push((packet.timestamp.as_nanos(), packet.data.into_owned()));
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_differs_is_found_in_few_steps() {
        for count in 0..40 {
            for change in 1..=count {
                let mut asked = Vec::new();
                let found = search(count, |number| {
                    asked.push(number);
                    Ok::<bool, ()>(number < change)
                });
                assert_eq!(found, Ok((change < count).then_some(change)), "{change} of {count}");
                assert!(asked.len() <= 8, "{asked:?}");
                assert!(change == count || asked.contains(&(change - 1)), "{asked:?}");
            }
        }
        assert_eq!(search(5, |number| if number == 4 { Err("no") } else { Ok(true) }), Err("no"));
    }
}
