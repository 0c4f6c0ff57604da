//! A run in several processes by MPI writes the same bytes as in one, and leaves nothing when one of them ends.
//!
//! These tests need `mpirun` and a program that was built with the feature `mpi`, named by the variable WARPLINE_MPI: `make test-mpi`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use proptest::prelude::*;

use crate::determinism::assert_same;
use crate::parts::short;
use crate::properties::scenario;

/// A fat-tree whose hosts open transfers to each other, over several paths, and send in a permutation.
const FAT_TREE: &str = "duration = \"60ms\"\nwarmup = \"10ms\"\nsample_interval = \"10ms\"\n[topology]\nkind = \"fat-tree\"\nk = 4\n\
    host = { rate = \"1Gbit/s\", delay = \"20us\", queue = \"1000p\" }\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"host\"\nto = \"host\"\npattern = \"permutation\"\ncc = \"reno\"\n\
    [[flow]]\nname = \"short\"\nfrom = \"host\"\nto = \"host\"\napp = \"arrivals\"\nload = 0.3\nsizes = \"web-search\"\n";

/// Flows in both directions over one bottleneck, with all kinds of records.
const DUMBBELL: &str = "duration = \"3s\"\nwarmup = \"500ms\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\n\
    bottleneck = { rate = \"10Mbit/s\", delay = \"10ms\", record = [\"pcap\", \"packets\"] }\n\
    [[flow]]\nfrom = \"left\"\nto = \"right\"\ncount = 4\nrecord = [\"tcp\", \"qlog\", \"latency\"]\n\
    [[flow]]\nname = \"back\"\nfrom = \"right.1\"\nto = \"left.1\"\napp = \"transfer\"\nsize = \"1MB\"\n";

/// Whether there is a program with MPI.
fn can_run() -> bool {
    let named = std::env::var_os("WARPLINE_MPI").is_some();
    if !named {
        warpline_skip::skip(
            "mpi",
            "WARPLINE_MPI does not name a program that was built with the feature mpi: make test-mpi",
        );
    }
    named
}

/// The program.
fn program() -> PathBuf {
    let named = std::env::var_os("WARPLINE_MPI").expect("WARPLINE_MPI names the program: make test-mpi");
    fs::canonicalize(named).unwrap()
}

/// The program in so many processes.
fn mpirun(count: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &count.to_string()]).arg(program());
    command
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n")
}

/// Runs a scenario in one process, in two and in four.
fn compare(scenario: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("random.toml");
    fs::write(&file, scenario).unwrap();
    let run = |mut command: Command, name: &str| {
        let out = directory.path().join(name);
        let output = command.arg("run").arg(&file).arg("--out").arg(&out).output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        out
    };
    let mut alone = Command::new(program());
    alone.env("NO_COLOR", "1").stdin(Stdio::null());
    let one = run(alone, "one");
    for count in [2, 4] {
        assert_same(&one, &run(mpirun(count), &count.to_string()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn two_and_four_processes_write_the_same_bytes(random in scenario(), traced: bool) {
        if !can_run() {
            return Ok(());
        }
        compare(&short(&random.text, traced));
    }
}

#[test]
fn a_fat_tree_and_a_dumbbell_are_the_same_in_several_processes() {
    if !can_run() {
        return;
    }
    compare(FAT_TREE);
    compare(DUMBBELL);
}

/// The errors that are said.
fn errors(output: &Output) -> Vec<String> {
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    lines.lines().filter(|line| line.starts_with("error")).map(str::to_owned).collect()
}

#[test]
fn what_is_wrong_is_said_once() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let good = write("good.toml", DUMBBELL);
    let said = |command: &mut Command, code: i32, part: &str| {
        let output = command.arg("--out").arg(directory.path().join("out")).output().unwrap();
        let errors = errors(&output);
        assert!(errors.len() == 1 && text(&output).contains(part), "{}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
    };
    let bad = write("bad.toml", &DUMBBELL.replace("\"3s\"", "\"1 fortnight\""));
    said(mpirun(4).arg("run").arg(bad), 2, "bad.toml:1");
    said(mpirun(4).arg("run").arg(&good).arg("--no-such-option"), 2, "no-such-option");
    said(mpirun(4).arg("run").arg(&good).args(["--cores", "2"]), 2, "each process runs one part");
    said(mpirun(4).arg("run").arg(&good).args(["--seeds", "1..3"]), 2, "several runs");
    said(mpirun(4).arg("run").arg("-"), 2, "standard input");
    let live = "clock = { mode = \"real\" }\nduration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\n\
        [[host]]\nname = \"a\"\nendpoint = \"live\"\nprogram = [{ command = \"true\" }]\n\
        [[host]]\nname = \"b\"\nendpoint = \"live\"\n";
    said(mpirun(4).arg("run").arg(write("live.toml", live)), 2, "start it without mpirun");
    // Another scenario in the second process.
    let other = write("other.toml", &DUMBBELL.replace("10Mbit/s", "11Mbit/s"));
    let mut both = mpirun(1);
    both.arg("run").arg(&good).arg("--out").arg(directory.path().join("out"));
    both.args([":", "-n", "1"]).arg(program()).arg("run").arg(&other);
    said(&mut both, 2, "process 1 was given another scenario than process 0");
    // The second process alone cannot read its scenario.
    let mut both = mpirun(1);
    both.arg("run").arg(&good).arg("--out").arg(directory.path().join("out"));
    both.args([":", "-n", "1"]).arg(program()).args(["run", "/no/such/file.toml"]);
    said(&mut both, 2, "process 1: ");
    // The results exist already.
    fs::create_dir(directory.path().join("out")).unwrap();
    fs::write(directory.path().join("out/mine"), "").unwrap();
    said(mpirun(4).arg("run").arg(&good), 3, "out");
    let mut left: Vec<_> =
        fs::read_dir(directory.path().join("out")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["mine"]);
}

/// The process with this number that runs a scenario.
fn process_of(number: usize, scenario: &Path) -> Option<u32> {
    let rank = format!("OMPI_COMM_WORLD_RANK={number}");
    let has =
        |bytes: &[u8], wanted: &str| bytes.split(|&byte| byte == 0).any(|word| word == wanted.as_bytes());
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let (words, variables) =
            (fs::read(entry.path().join("cmdline")).ok()?, fs::read(entry.path().join("environ")).ok()?);
        (has(&words, scenario.to_str()?) && has(&variables, &rank)).then_some(pid)
    })
}

/// A run of four processes that would take hours, once it writes.
#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn endless(directory: &Path) -> (Child, PathBuf) {
    let scenario = directory.join("endless.toml");
    fs::write(&scenario, DUMBBELL.replace("\"3s\"", "\"10000000s\"\nsample_interval = \"1000s\"")).unwrap();
    let results = directory.join("results");
    fs::create_dir(&results).unwrap();
    let mut run = mpirun(4);
    // On a busy machine, processes that are asked to end may take more than the usual second, after which they are killed.
    run.env("OMPI_MCA_odls_base_sigkill_timeout", "10");
    run.arg("run").arg(&scenario).arg("--out").arg(results.join("out"));
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let captured = || -> u64 {
        let partial =
            fs::read_dir(&results).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_dir());
        let files = partial.and_then(|partial| fs::read_dir(partial).ok()).into_iter().flatten().flatten();
        let captures = files.filter(|file| file.path().extension().is_some_and(|end| end == "pcapng"));
        captures.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    };
    while captured() < 1 << 20 {
        assert_eq!(run.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    (run, scenario)
}

/// Ends a process or lets `mpirun` end, and expects that nothing is left.
fn nothing_is_left(signal: &str, number: Option<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let (run, scenario) = endless(directory.path());
    let pid = number.map_or(Some(run.id()), |number| process_of(number, &scenario)).unwrap();
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    assert_eq!(fs::read_dir(directory.path().join("results")).unwrap().count(), 0, "{}", text(&output));
    for number in 0..4 {
        assert_eq!(process_of(number, &scenario), None);
    }
}

#[test]
fn a_process_that_is_killed_ends_all_and_leaves_no_results() {
    if !can_run() {
        return;
    }
    nothing_is_left("-KILL", Some(2));
}

#[test]
fn ctrl_c_ends_all_and_leaves_no_results() {
    if !can_run() {
        return;
    }
    nothing_is_left("-INT", None);
}
