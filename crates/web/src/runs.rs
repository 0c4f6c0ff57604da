//! Runs: those under way, each a process of its own, and those that lie in the folder of runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warpline_core::TimeDelta;
use warpline_disk::OsDirectory;
use warpline_lab::run;
use warpline_results::summary::SUMMARY_FILE;
use warpline_results::tables::FILE_MODE;
use warpline_results::unfinished;
use warpline_scenario::{ClockMode, Scenario, Source};

use crate::answer::{Answer, Refusal};
use crate::course::Course;
use crate::files::Folder;
use crate::packets::PACKETS_FILE;
use crate::sweep::{Axis, Point, plain, points, prepared};

/// In the directory of several runs: which keys took which values.
const GRID_FILE: &str = "grid.json";
/// Folders of runs within folders of runs: a grid, its points, their seeds.
const DEPTH: usize = 3;
/// Entries of the list, at most.
const MOST: usize = 2000;
/// Intervals of a run that are shown while it goes on, about.
const INTERVALS: u64 = 400;
/// A recording of packets ends the run when it is as large as this.
const LARGEST_RECORDING: u64 = 1 << 30;
/// Of what a run says when it fails, the last part is kept.
const LAST_WORDS: usize = 4000;
/// A line of a run that is longer is shown in part.
const LONG_LINE: usize = 8 << 10;
/// Flows, and links, whose curves are shown while a run goes on, where there are many.
const MOST_SHOWN: usize = 24;
/// Finished runs whose course is kept in memory.
const KEPT: usize = 50;
/// How long the lab waits for its runs when it ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks meanwhile whether they have ended.
const LOOK: Duration = Duration::from_millis(50);

/// A wish for runs.
#[derive(Debug, Deserialize)]
pub(crate) struct Wish {
    /// The scenario's text.
    text: String,
    /// Its file, if it has one: paths in it lead from there.
    file: Option<String>,
    /// What a scenario without a file is called, if it does not say so itself.
    called: Option<String>,
    /// What to call the runs; the scenario's name if nothing is said.
    name: Option<String>,
    /// Seeds; those of the scenario if there are none.
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    axes: Vec<Axis>,
    /// Whether to record all packets.
    #[serde(default)]
    record: bool,
}

/// How it goes with a run that the lab has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(crate) enum State {
    Waiting,
    Running,
    Done,
    Stopped { why: String },
    Failed { why: String },
}

impl State {
    fn is_over(&self) -> bool {
        !matches!(self, State::Waiting | State::Running)
    }
}

/// What is shown of a run while it goes on: of a large network a part, always the same.
#[derive(Debug, Default)]
struct Shown {
    /// The flows and the links whose values are shown.
    names: [BTreeSet<String>; 2],
}

impl Shown {
    /// A line without what is not shown.
    fn part_of(&mut self, line: String) -> String {
        if line.len() < LONG_LINE {
            return line;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&line) else { return line };
        if value["event"] == "interval" {
            for (key, names) in ["flows", "links"].into_iter().zip(&mut self.names) {
                let Some(rows) = value.get_mut(key).and_then(Value::as_array_mut) else { continue };
                // Those that do most when there is something for the first time.
                let mut busy: Vec<(f64, &str)> = rows
                    .iter()
                    .filter_map(|row| Some((row["throughput_bps"].as_f64()?, row["name"].as_str()?)))
                    .filter(|(rate, _)| *rate > 0.0)
                    .collect();
                busy.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                let more = MOST_SHOWN.saturating_sub(names.len());
                let new: Vec<String> = busy
                    .into_iter()
                    .map(|(_, name)| name.to_owned())
                    .filter(|name| !names.contains(name))
                    .take(more)
                    .collect();
                names.extend(new);
                rows.retain(|row| row["name"].as_str().is_some_and(|name| names.contains(name)));
            }
        } else if let Some(object) = value.as_object_mut() {
            // The whole summary is in the run's directory.
            object.remove("summary");
        }
        value.to_string()
    }
}

#[derive(Debug)]
struct Job {
    state: State,
    course: Arc<Course>,
    /// What the process is to be given; taken when it starts.
    order: Option<Order>,
    /// The process, while it runs.
    process: Option<u32>,
    /// Why it was asked to stop.
    stopping: Option<String>,
}

/// What a process is started with.
#[derive(Debug)]
struct Order {
    text: String,
    arguments: Vec<String>,
    folder: PathBuf,
    out: PathBuf,
}

#[derive(Debug, Default)]
struct Jobs {
    all: BTreeMap<String, Job>,
    waiting: VecDeque<String>,
    running: usize,
    /// In the order in which they ended.
    over: VecDeque<String>,
    /// No more are started.
    closed: bool,
}

/// The runs of a lab.
#[derive(Debug)]
pub(crate) struct Runs {
    folder: Folder,
    program: PathBuf,
    jobs: Mutex<Jobs>,
    /// What is known of directories that have not changed since.
    known: Mutex<BTreeMap<PathBuf, (std::time::SystemTime, Value)>>,
    slots: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runs {
    /// Runs in this folder, by this program.
    pub(crate) fn new(folder: Folder, program: PathBuf) -> Runs {
        let slots = thread::available_parallelism().map_or(1, usize::from);
        Runs { folder, program, jobs: Mutex::default(), known: Mutex::default(), slots }
    }

    /// Where they are.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The directory of a run.
    pub(crate) fn directory(&self, run: &str) -> Answer<PathBuf> {
        let path = self.folder.at(run)?;
        if path.is_dir() { Ok(path) } else { Err(Refusal::missing(format!("there is no run {run}"))) }
    }

    /// Starts what is wished. Returns the names of the runs.
    pub(crate) fn start(self: &Arc<Self>, wish: &Wish, scenarios: &Folder) -> Answer<Value> {
        let file = wish.file.as_deref().map(|file| scenarios.at(file)).transpose()?;
        let named = wish.called.as_deref().map(Path::new);
        let stem = file.as_deref().or(named).and_then(Path::file_stem);
        let stem = stem.map_or("scenario".into(), |stem| stem.to_string_lossy());
        let folder = file.as_deref().and_then(Path::parent).unwrap_or(scenarios.path()).to_owned();
        let text = prepared(&wish.text, wish.record)?;
        let load = |sets: &[String]| {
            let loaded = run::load(&Source::from_text(&stem, &text, &folder), sets);
            loaded.map_err(|errors| Refusal::bad(errors.to_string()))
        };
        let scenario = load(&[])?;
        let own = Scenario::from_toml_in(&stem, &wish.text, &[], &folder)
            .map(|own| own.seeds())
            .unwrap_or_default();
        let seeds = if wish.seeds.is_empty() { own } else { wish.seeds.clone() };
        let points = points(&wish.axes, &seeds)?;
        let plans = points.iter().map(|point| load(&point.sets).map(|own| (own.clock.mode, period(&own))));
        let plans = plans.collect::<Answer<Vec<(ClockMode, TimeDelta)>>>()?;
        let wanted = wish
            .name
            .as_deref()
            .map(plain)
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| plain(&scenario.name));
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            return Err(Refusal::failed("the lab is about to end"));
        }
        let name = self.free_name(&wanted, &jobs);
        if points.len() > 1 {
            self.write_grid(&name, &wish.axes, &seeds)?;
        }
        let mut names = Vec::new();
        for (point, (clock, period)) in points.iter().zip(plans) {
            let run = if point.name.is_empty() { name.clone() } else { format!("{name}/{}", point.name) };
            let out = self.folder.path().join(&run);
            let order = Order {
                arguments: arguments(&scenario.name, point, clock, period, &out, points.len() > 1),
                text: text.clone(),
                folder: folder.clone(),
                out,
            };
            let job = Job {
                state: State::Waiting,
                course: Course::new(),
                order: Some(order),
                process: None,
                stopping: None,
            };
            jobs.all.insert(run.clone(), job);
            jobs.waiting.push_back(run.clone());
            names.push(run);
        }
        drop(jobs);
        self.pump();
        Ok(json!({ "name": name, "runs": names }))
    }

    /// A name that no run has.
    fn free_name(&self, wanted: &str, jobs: &Jobs) -> String {
        let taken = |name: &str| {
            let ours = jobs.all.keys().any(|run| run.split('/').next() == Some(name));
            ours || self.folder.path().join(name).exists()
        };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    fn write_grid(&self, name: &str, axes: &[Axis], seeds: &[u64]) -> Answer<()> {
        let directory = self.folder.path().join(name);
        let text = json!({ "axes": axes, "seeds": seeds }).to_string();
        let written = fs::create_dir_all(&directory).and_then(|()| {
            warpline_disk::write_whole(
                &OsDirectory::here(),
                &directory.join(GRID_FILE),
                FILE_MODE,
                text.as_bytes(),
            )
        });
        written
            .map_err(|error| Refusal::failed(format!("cannot write into {}: {error}", directory.display())))
    }

    /// Starts those that wait, as many as the machine has cores.
    fn pump(self: &Arc<Self>) {
        let mut jobs = lock(&self.jobs);
        while jobs.running < self.slots && !jobs.closed {
            let Some(run) = jobs.waiting.pop_front() else { break };
            let Some(job) = jobs.all.get_mut(&run) else { continue };
            let Some(order) = job.order.take() else { continue };
            match self.spawn(&order) {
                Ok(child) => {
                    (job.state, job.process) = (State::Running, Some(child.id()));
                    jobs.running += 1;
                    let own = Arc::clone(self);
                    thread::spawn(move || own.attend(&run, child, order));
                }
                Err(error) => {
                    let why = format!("cannot start {}: {error}", self.program.display());
                    end(&mut jobs, &run, State::Failed { why });
                }
            }
        }
    }

    fn spawn(&self, order: &Order) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&order.arguments)
            .current_dir(&order.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C at the terminal goes to the whole group of the lab. Runs are in groups of their own: the lab asks each of them, once.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn()
    }

    /// Gives a process its scenario, takes what it says, and waits for its end.
    fn attend(self: &Arc<Self>, run: &str, mut child: Child, order: Order) {
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        // A process that does not read says why when it ends.
        let _ = stdin.map(|mut stdin| stdin.write_all(order.text.as_bytes()));
        let recording = unfinished(&order.out, child.id()).map(|path| path.join(PACKETS_FILE)).ok();
        let course = lock(&self.jobs).all.get(run).map(|job| Arc::clone(&job.course));
        let lines = child
            .stdout
            .take()
            .into_iter()
            .flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
        let mut shown = Shown::default();
        for line in lines {
            if let Some(course) = &course {
                course.add(&shown.part_of(line), false);
            }
            let size =
                recording.as_ref().and_then(|path| fs::metadata(path).ok()).map_or(0, |data| data.len());
            if size > LARGEST_RECORDING {
                let _ = self.stop(
                    run,
                    "the recording of its packets had become too large; what was recorded until then is kept",
                );
            }
        }
        // This may take long, if another process holds stderr. Until `wait`, the number stays this process's, and a signal can do no harm.
        let said = errors.join().unwrap_or_default();
        await_end(&mut child);
        let mut jobs = lock(&self.jobs);
        // With the jobs locked: from now on another process can have the number, and Stop must not find it here any more.
        let status = child.wait();
        jobs.running -= 1;
        let stopping = jobs.all.get(run).and_then(|job| job.stopping.clone());
        let state = match (status, stopping) {
            (_, Some(why)) => State::Stopped { why },
            (Ok(status), None) if status.success() => State::Done,
            (Ok(_), None) => State::Failed { why: last_words(&said) },
            (Err(error), None) => State::Failed { why: error.to_string() },
        };
        end(&mut jobs, run, state);
        drop(jobs);
        self.pump();
    }

    /// Asks a run to stop, or all runs below a name. What was measured is kept. A run is asked once: further requests would end it without results.
    pub(crate) fn stop(&self, name: &str, why: &str) -> Answer<usize> {
        let mut jobs = lock(&self.jobs);
        let below = format!("{name}/");
        let runs: Vec<String> = jobs
            .all
            .iter()
            .filter(|(run, job)| (**run == name || run.starts_with(&below)) && !job.state.is_over())
            .map(|(run, _)| run.clone())
            .collect();
        for run in &runs {
            let Some(job) = jobs.all.get_mut(run).filter(|job| job.stopping.is_none()) else { continue };
            job.stopping = Some(why.to_owned());
            match job.process {
                Some(process) => interrupt(process),
                None => {
                    job.order = None;
                    end(&mut jobs, run, State::Stopped { why: why.to_owned() });
                }
            }
        }
        jobs.waiting.retain(|run| !runs.contains(run));
        if runs.is_empty() {
            Err(Refusal::missing(format!("no run {name} is under way")))
        } else {
            Ok(runs.len())
        }
    }

    /// Asks all runs to stop, as the lab ends, and waits for them for a while. One that needs longer to write its results goes on without the lab.
    pub(crate) async fn close(&self) {
        {
            let mut jobs = lock(&self.jobs);
            jobs.closed = true;
            jobs.waiting.clear();
            for job in jobs.all.values_mut().filter(|job| job.stopping.is_none()) {
                if let Some(process) = job.process {
                    job.stopping = Some("the lab has ended; what was measured until then is kept".to_owned());
                    interrupt(process);
                }
            }
        }
        let ended = async {
            while lock(&self.jobs).running > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }

    /// The run that this process is, if this lab has started it.
    pub(crate) fn of_process(&self, process: u64) -> Option<String> {
        let jobs = lock(&self.jobs);
        let found = jobs.all.iter().find(|(_, job)| job.process.map(u64::from) == Some(process));
        found.map(|(run, _)| run.clone())
    }

    /// The course of a run that this lab has started.
    pub(crate) fn course(&self, run: &str) -> Answer<Arc<Course>> {
        let jobs = lock(&self.jobs);
        let job = jobs.all.get(run).ok_or_else(|| Refusal::missing(format!("{run} was not started here")))?;
        Ok(Arc::clone(&job.course))
    }

    /// Gives a run, or a grid, another name.
    pub(crate) fn rename(&self, run: &str, name: &str) -> Answer<()> {
        let from = self.directory(run)?;
        if run.contains('/') || name.contains('/') {
            return Err(Refusal::bad("a run of a grid has the name of its values"));
        }
        let to = self.folder.at(name)?;
        let mut jobs = lock(&self.jobs);
        let of_run = |own: &str| own.split('/').next() == Some(run);
        if jobs.all.iter().any(|(own, job)| of_run(own) && !job.state.is_over()) {
            return Err(Refusal::conflict("it is under way; stop it first, or wait for its end"));
        }
        if plain(name) != name
            || to.exists()
            || jobs.all.keys().any(|own| own.split('/').next() == Some(name))
        {
            return Err(Refusal::conflict(format!(
                "{name:?} is taken, or has signs other than letters, digits, \"-\", \"_\" and \".\""
            )));
        }
        fs::rename(from, to).map_err(|error| Refusal::failed(format!("cannot rename {run}: {error}")))?;
        jobs.all.retain(|own, _| !of_run(own));
        // Another run may get the old name.
        jobs.over.retain(|own| !of_run(own));
        Ok(())
    }

    /// All runs: those under way, and those in the folder. The newest first.
    pub(crate) fn list(&self) -> Value {
        let mut found: BTreeMap<String, Value> = BTreeMap::new();
        let mut entries: Vec<Value> = Vec::new();
        let mut there = directories(self.folder.path());
        there.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
        for (_, name) in there {
            if entries.len() >= MOST {
                break;
            }
            let path = self.folder.path().join(&name);
            if let Some(brief) = self.brief(&path) {
                entries.push(with(brief, &[("run", name.clone().into())]));
            } else {
                let mut cells = Vec::new();
                self.cells(&path, &name, DEPTH, &mut cells);
                let grid = fs::read_to_string(path.join(GRID_FILE))
                    .ok()
                    .and_then(|text| serde_json::from_str::<Value>(&text).ok());
                if !cells.is_empty() || grid.is_some() {
                    entries.push(json!({ "run": name, "grid": grid.unwrap_or(Value::Null), "cells": cells }));
                }
            }
        }
        let jobs = lock(&self.jobs);
        for (run, job) in &jobs.all {
            let state = serde_json::to_value(&job.state).unwrap_or_default();
            found.insert(run.clone(), state);
        }
        // Those under way come first, and are not in the folder yet.
        let mut list: Vec<Value> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for mut entry in entries {
            let name = entry["run"].as_str().unwrap_or_default().to_owned();
            if let Some(state) = found.get(&name) {
                entry["job"] = state.clone();
            }
            if let Some(cells) = entry.get_mut("cells").and_then(Value::as_array_mut) {
                let below = format!("{name}/");
                for cell in cells.iter_mut() {
                    if let Some(state) = cell["run"].as_str().and_then(|run| found.get(run)) {
                        cell["job"] = state.clone();
                    }
                }
                let there: Vec<String> =
                    cells.iter().filter_map(|cell| cell["run"].as_str().map(str::to_owned)).collect();
                let more = found.iter().filter(|(run, _)| run.starts_with(&below) && !there.contains(run));
                cells.extend(more.map(|(run, state)| json!({ "run": run, "job": state })));
            }
            seen.push(name);
            list.push(entry);
        }
        let fresh =
            found.iter().filter(|(run, _)| !seen.iter().any(|name| run.split('/').next() == Some(name)));
        let mut fresh: Vec<Value> = fresh.map(|(run, state)| json!({ "run": run, "job": state })).collect();
        fresh.append(&mut list);
        Value::Array(fresh)
    }

    fn cells(&self, path: &Path, name: &str, depth: usize, cells: &mut Vec<Value>) {
        if depth == 0 || cells.len() >= MOST {
            return;
        }
        for (_, own) in directories(path) {
            let (path, name) = (path.join(&own), format!("{name}/{own}"));
            match self.brief(&path) {
                Some(brief) => cells.push(with(brief, &[("run", name.into())])),
                None => self.cells(&path, &name, depth - 1, cells),
            }
        }
    }

    /// The head of a run's summary; none where there is no run.
    fn brief(&self, path: &Path) -> Option<Value> {
        #[derive(Deserialize, Serialize)]
        struct Brief {
            scenario: String,
            seed: u64,
            duration_s: f64,
            simulated_s: f64,
            complete: bool,
            totals: Value,
        }
        let file = path.join(SUMMARY_FILE);
        let changed = fs::metadata(&file).and_then(|data| data.modified()).ok()?;
        if let Some((at, value)) = lock(&self.known).get(path)
            && *at == changed
        {
            return Some(value.clone());
        }
        let brief: Brief = serde_json::from_reader(BufReader::new(fs::File::open(&file).ok()?)).ok()?;
        let packets = path.join(PACKETS_FILE).is_file();
        let value = with(
            serde_json::to_value(brief).ok()?,
            &[("packets", packets.into()), ("path", path.display().to_string().into())],
        );
        lock(&self.known).insert(path.to_owned(), (changed, value.clone()));
        Some(value)
    }
}

fn with(mut value: Value, more: &[(&str, Value)]) -> Value {
    for (key, own) in more {
        value[*key] = own.clone();
    }
    value
}

/// Directories in a folder that are not hidden, with the time of their last change, in order.
fn directories(path: &Path) -> Vec<(std::time::SystemTime, String)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let data = entry.metadata().ok()?;
            (data.is_dir() && !name.starts_with('.')).then_some((data.modified().ok()?, name))
        })
        .collect();
    found.sort_by(|(_, a), (_, b)| a.cmp(b));
    found
}

/// Notes that a run is over, and tells those that follow it.
fn end(jobs: &mut Jobs, run: &str, state: State) {
    let Some(job) = jobs.all.get_mut(run) else { return };
    let said = serde_json::to_value(&state).unwrap_or_default();
    (job.state, job.process) = (state, None);
    job.course.add(&with(json!({ "event": "over" }), &[("job", said)]).to_string(), true);
    jobs.over.push_back(run.to_owned());
    while jobs.over.len() > KEPT {
        if let Some(old) = jobs.over.pop_front()
            && let Some(job) = jobs.all.get(&old)
        {
            job.course.forget();
        }
    }
}

/// The time of a run between two of the intervals that are shown while it goes on: a whole number of those of its samples.
fn period(scenario: &Scenario) -> TimeDelta {
    let interval = scenario.sample_interval.0;
    let count = (scenario.duration.0 / INTERVALS).as_nanos().div_ceil(interval.as_nanos().max(1));
    interval.saturating_mul(count.max(1))
}

/// The arguments of the program for one run.
fn arguments(
    scenario: &str,
    point: &Point,
    clock: ClockMode,
    period: TimeDelta,
    out: &Path,
    several: bool,
) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", "-", "--json-stream"].map(str::to_owned).to_vec();
    arguments.extend([format!("--period={period}"), format!("--out={}", out.display())]);
    // As a text of TOML: a name such as "2024" is no number.
    let name = toml_edit::Value::from(scenario);
    let sets = [format!("name={name}"), format!("seed={}", point.seed)];
    arguments.extend(sets.iter().chain(&point.sets).map(|set| format!("--set={set}")));
    if cfg!(unix) {
        arguments.push(format!("--with-parent={}", std::process::id()));
    }
    if several {
        arguments.push("--cores=1".to_owned());
    }
    // A simulation is over sooner than anybody can change it.
    if clock != ClockMode::Virtual {
        arguments.push("--control".to_owned());
    }
    arguments
}

fn last_words(said: &str) -> String {
    let said = said.trim();
    let begin = said.char_indices().rev().map(|(at, _)| at).take(LAST_WORDS).last().unwrap_or(0);
    if said.is_empty() { "it ended without a word".to_owned() } else { said[begin..].to_owned() }
}

/// Asks a process to stop. Not by SIGINT: a lab in the background of a shell may ignore that one, and then its runs do, too.
#[cfg(unix)]
fn interrupt(process: u32) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(process) = process {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

/// Ends a process: there is no Ctrl-C for one process here.
#[cfg(not(unix))]
fn interrupt(process: u32) {
    let _ = Command::new("taskkill").args(["/F", "/PID", &process.to_string()]).status();
}

/// Waits until a process has ended. No other process gets its number before [`Child::wait`].
#[cfg(unix)]
fn await_end(child: &mut Child) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let process = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(process), options));
}

/// Waits until a process has ended. No other process gets its number while we have a handle of this one.
#[cfg(not(unix))]
fn await_end(child: &mut Child) {
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that runs in this process.
    #[cfg(unix)]
    fn job(process: &Child, stopping: Option<&str>) -> Job {
        Job {
            state: State::Running,
            course: Course::new(),
            order: None,
            process: Some(process.id()),
            stopping: stopping.map(str::to_owned),
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_run_is_asked_to_stop_once() {
        use std::os::unix::process::ExitStatusExt as _;
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(Folder::open(root.path()).unwrap(), PathBuf::from("none"));
        // As a job in the background of a shell, it ignores Ctrl-C.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' INT; echo up; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"up\n");
        lock(&runs.jobs).all.insert("grid/asked".to_owned(), job(&child, Some("before")));
        assert_eq!(runs.stop("grid/asked", "again").unwrap(), 1);
        assert_eq!(lock(&runs.jobs).all["grid/asked"].stopping.as_deref(), Some("before"));
        assert!(child.try_wait().unwrap().is_none(), "no second signal");
        lock(&runs.jobs).all.insert("grid/new".to_owned(), job(&child, None));
        assert_eq!(runs.stop("grid", "now").unwrap(), 2);
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert_eq!(runs.stop("other", "now").unwrap_err().status, 404);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_end_of_the_lab_asks_only_runs_that_were_not_asked_before() {
        use std::os::unix::process::ExitStatusExt as _;
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(Folder::open(root.path()).unwrap(), PathBuf::from("none"));
        let sleeping = || Command::new("sleep").arg("60").spawn().unwrap();
        let (mut asked, mut new) = (sleeping(), sleeping());
        lock(&runs.jobs).all.insert("asked".to_owned(), job(&asked, Some("before")));
        lock(&runs.jobs).all.insert("new".to_owned(), job(&new, None));
        runs.close().await;
        assert_eq!(new.wait().unwrap().signal(), Some(15));
        assert!(asked.try_wait().unwrap().is_none(), "a second request");
        asked.kill().unwrap();
        assert_eq!(asked.wait().unwrap().signal(), Some(9));
    }

    #[cfg(unix)]
    #[test]
    fn ctrl_c_at_the_labs_terminal_does_not_reach_a_run() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(Folder::open(root.path()).unwrap(), PathBuf::from("sleep"));
        let order = Order {
            text: String::new(),
            arguments: vec!["60".to_owned()],
            folder: root.path().to_owned(),
            out: root.path().join("run"),
        };
        let mut child = runs.spawn(&order).unwrap();
        let process = rustix::process::Pid::from_child(&child);
        let group = rustix::process::getpgid(Some(process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(group.unwrap(), process);
    }

    #[cfg(unix)]
    #[test]
    fn of_too_many_runs_the_newest_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(Folder::open(root.path()).unwrap(), PathBuf::from("none"));
        // The newest comes last by its name.
        for number in 0..=MOST {
            let directory = root.path().join(format!("run-{number:04}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(GRID_FILE), "{}").unwrap();
            let changed = std::time::UNIX_EPOCH + Duration::from_secs(number as u64);
            fs::File::open(&directory).unwrap().set_modified(changed).unwrap();
        }
        let list = runs.list();
        assert_eq!(list.as_array().unwrap().len(), MOST);
        assert_eq!((&list[0]["run"], &list[MOST - 1]["run"]), (&"run-2000".into(), &"run-0001".into()));
    }

    #[tokio::test]
    async fn a_run_that_gets_a_name_of_before_keeps_its_course() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(Folder::open(root.path()).unwrap(), PathBuf::from("none"));
        let add = |name: &str| {
            let (state, course) = (State::Running, Course::new());
            let job = Job { state, course, order: None, process: None, stopping: None };
            lock(&runs.jobs).all.insert(name.to_owned(), job);
        };
        let over = |name: &str| end(&mut lock(&runs.jobs), name, State::Done);
        add("one");
        over("one");
        fs::create_dir(root.path().join("one")).unwrap();
        runs.rename("one", "two").unwrap();
        add("one");
        let course = Arc::clone(&lock(&runs.jobs).all["one"].course);
        course.add("begun", false);
        course.add("half", false);
        for number in 0..KEPT {
            add(&format!("other-{number}"));
            over(&format!("other-{number}"));
        }
        assert_eq!(course.follow().next().await.as_deref(), Some("begun"));
    }

    #[test]
    fn a_scenario_may_have_a_number_as_its_name() {
        let point = Point { name: String::new(), sets: Vec::new(), seed: 7 };
        let second = TimeDelta::from_secs(1);
        let arguments = arguments("2024", &point, ClockMode::Virtual, second, Path::new("out"), false);
        let sets = arguments.iter().filter_map(|argument| argument.strip_prefix("--set="));
        let sets: Vec<String> = sets.map(str::to_owned).collect();
        let text = "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        let scenario = Scenario::from_toml("test", text, &sets).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.seed), ("2024", 7));
    }

    #[test]
    fn the_intervals_that_are_shown_are_whole_intervals_of_the_samples() {
        let text =
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        for (duration, interval, shown) in [
            ("60s", "100ms", "200ms"),
            ("40s", "100ms", "100ms"),
            ("60s", "70ms", "210ms"),
            ("1s", "1s", "1s"),
        ] {
            let head = format!("duration = \"{duration}\"\nsample_interval = \"{interval}\"\n");
            let scenario = Scenario::from_toml("test", &(head + text), &[]).unwrap();
            assert_eq!(period(&scenario).to_string(), shown, "{duration} {interval}");
        }
    }

    #[test]
    fn of_many_flows_the_busiest_are_shown_and_always_the_same() {
        let interval = |rates: &dyn Fn(usize) -> f64| {
            let rows: Vec<Value> = (0..500)
                .map(|i| json!({ "name": format!("flow.{i}"), "throughput_bps": rates(i), "cwnd_bytes": 1 }))
                .collect();
            json!({ "event": "interval", "time_s": 1.0, "flows": rows, "links": [] }).to_string()
        };
        let mut shown = Shown::default();
        let names = |line: &str| -> Vec<String> {
            let value: Value = serde_json::from_str(line).unwrap();
            value["flows"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["name"].as_str().unwrap().to_owned())
                .collect()
        };
        // Nothing is sent yet: nobody has a place.
        assert!(names(&shown.part_of(interval(&|_| 0.0))).is_empty());
        let first = names(&shown.part_of(interval(&|i| i as f64)));
        assert_eq!((first.len(), first[0].as_str()), (MOST_SHOWN, "flow.476"));
        assert_eq!(names(&shown.part_of(interval(&|i| 500.0 - i as f64))), first);
        let end = json!({ "event": "end", "complete": true, "summary": "x".repeat(LONG_LINE) }).to_string();
        assert_eq!(shown.part_of(end), "{\"event\":\"end\",\"complete\":true}");
        assert_eq!(shown.part_of("{}".to_owned()), "{}");
    }
}
