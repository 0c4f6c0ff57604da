//! Scenarios on the command line: the messages of `check` and `run`, files and pipes, and repeating a run from its directory.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Answer, Desk, SMALL};

/// Runs the program with a text on its standard input.
fn fed(desk: &Desk, arguments: &[&str], input: &str) -> Answer {
    let mut command = desk.program(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Answer::from(child.wait_with_output().unwrap())
}

/// A scenario whose link follows a trace.
fn traced(path: &str) -> String {
    SMALL.replace("rate = \"1Mbit/s\"", &format!("trace = \"{path}\""))
}

#[test]
fn check_and_run_report_the_same_errors() {
    let desk = Desk::new();
    fs::create_dir(desk.path().join("folder")).unwrap();
    fs::write(desk.path().join("binary"), [0, 159, 146, 150]).unwrap();
    desk.write("log", "this is no log\n");
    desk.write("losses.csv", "time,lost\n0,0\n2,2\n");
    let web = "app = \"web\"\nweb = { access_log = \"log\" }\n";
    for (text, told) in [
        (traced("binary"), "bad.toml:6:9"),
        (traced("binary"), "`binary` is no mahimahi trace: line 1, column 1"),
        (traced("folder"), "it is a directory"),
        (traced("nothing"), "there is no file `nothing`"),
        (format!("{SMALL}{web}"), "`log` is no access log: line 1"),
        (format!("{SMALL}cc = {{ kind = \"custom\", name = \"mine\" }}\n"), "`mine`"),
        (SMALL.replace("delay = \"5ms\"", "loss = 1"), "`1` could mean 1 % or always: write `1%` or `100%`"),
        (SMALL.replace("delay = \"5ms\"", "loss = 0.01"), "`0.01` could mean 0.01 % or 1 %"),
        (SMALL.replace("delay = \"5ms\"", "queue = 250"), "100p"),
        (
            SMALL.replace("delay = \"5ms\"", "loss = { kind = \"trace\", file = \"losses.csv\" }"),
            "`losses.csv` is no loss trace: line 3, column 3: a packet is lost (1) or not (0)",
        ),
        (SMALL.replace("delay = \"5ms\"", "jitter = \"trace,file=no.csv\""), "there is no file `no.csv`"),
        (SMALL.replace("delay = \"5ms\"", "radio = \"cellular\""), "`radio` excludes `rate`"),
        (
            SMALL.replace("delay = \"5ms\"", "duplicate = 1"),
            "`1` could mean 1 % or always: write `1%` or `100%`",
        ),
        (SMALL.replace("delay = \"5ms\"", "queue = \"codel,targt=5ms\""), "did you mean `target`"),
    ] {
        desk.write("bad.toml", &text);
        let [check, run] = ["check", "run"].map(|command| desk.warpline(&[command, "bad.toml"]));
        assert_eq!((check.code, run.code), (Some(2), Some(2)), "{text}\n{check:?}\n{run:?}");
        assert_eq!(check.stderr, run.stderr, "{text}");
        assert!(check.stderr.contains(told), "{told} is missing in\n{}", check.stderr);
        assert_eq!(desk.names("runs"), Vec::<String>::new());
    }
}

#[test]
fn short_forms_are_the_same_in_files_and_in_set() {
    let desk = Desk::new();
    desk.write(
        "short.toml",
        &SMALL.replace("delay = \"5ms\"", "loss = \"0.1%\"\nqueue = \"250p\"\njitter = \"uniform,max=1ms\""),
    );
    desk.warpline(&["run", "short.toml", "--out", "a", "--no-report"]).fine();
    let sets = ["link.0.loss=0.1%", "link.0.queue=250p", "link.0.jitter=uniform,max=1ms", "link.0.delay=0s"];
    let mut words = vec!["run", "small.toml", "--out", "b", "--no-report"];
    words.extend(sets.iter().flat_map(|set| ["--set", set]));
    desk.warpline(&words).fine();
    let text = |run: &str| fs::read_to_string(desk.path().join(run).join("scenario.toml")).unwrap();
    assert_eq!(text("a").replace("delay = \"0s\"\n", ""), text("b").replace("delay = \"0s\"\n", ""));
    assert!(
        text("a").contains("probability = 0.001") && text("a").contains("limit = \"250p\""),
        "{}",
        text("a")
    );
    // --set can change a part of a short form.
    desk.warpline(&[
        "check",
        "short.toml",
        "--set",
        "link.0.queue.limit=1BDP",
        "--set",
        "link.0.loss.probability=2%",
    ])
    .fine();
}

#[test]
fn standard_input_and_pipes_are_read() {
    let desk = Desk::new();
    desk.write("trace", "5\n10\n");
    let text = traced("trace").replace("name = \"small\"\n", "");
    for (path, name) in [("-", "scenario"), ("/dev/stdin", "scenario")] {
        let answer = fed(&desk, &["check", path], &text).fine();
        assert_eq!(answer.stdout, format!("{path}: valid (1 run, 2s)\n"));
        let out = format!("out{}", path.replace('/', "-"));
        fed(&desk, &["run", path, "--out", &out, "--clock", "virtual", "--quiet"], &text).fine();
        assert_eq!(desk.summary(&out)["scenario"], name);
    }
    let wrong = fed(&desk, &["check", "-"], "duration = 5\n");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("standard input:1:12"), "{wrong:?}");
    // The shell's process substitution, which is a named pipe.
    let line = format!("{} run <(cat small.toml) --out piped --quiet", env!("CARGO_BIN_EXE_warpline"));
    if let Ok(output) = Command::new("bash").args(["-c", &line]).current_dir(desk.path()).output() {
        Answer::from(output).fine();
    }
}

#[test]
fn a_run_can_be_repeated_from_a_moved_directory_with_the_same_bytes() {
    let desk = Desk::new();
    fs::create_dir(desk.path().join("traces")).unwrap();
    desk.write("traces/lte.down", "3\n9\n14\n20\n");
    desk.write("access.log", "1000.500 500 10.0.0.1 TCP_MISS/200 5000 GET http://a/ - DIRECT/- text/html\n");
    let web = "[[flow]]\nname = \"web\"\nfrom = \"client\"\nto = \"server\"\napp = \"web\"\nweb = { access_log = \"access.log\" }\n";
    desk.write("traced.toml", &format!("{}{web}", traced("traces/lte.down")));
    desk.warpline(&["run", "traced.toml", "--out", "first"]).fine();
    let summary = desk.summary("first");
    let files: Vec<&str> =
        summary["inputs"].as_array().unwrap().iter().map(|input| input["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["inputs/lte.down", "inputs/access.log"]);
    assert!(summary["inputs"][0]["hash"].as_str().unwrap().starts_with("sha256:"));

    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(desk.path().join("first"), &moved).unwrap();
    fs::remove_dir_all(desk.path().join("traces")).unwrap();
    fs::remove_file(desk.path().join("access.log")).unwrap();
    let scenario = moved.join("scenario.toml");
    desk.warpline(&["run", scenario.to_str().unwrap(), "--out", "again"]).fine();
    let mut names = desk.names("again");
    names.retain(|name| name != "inputs");
    names.extend(files.iter().map(|file| (*file).to_owned()));
    assert!(names.len() > 6, "{names:?}");
    for name in names {
        let read = |directory: &std::path::Path| fs::read(directory.join(&name)).unwrap();
        assert!(read(&moved) == read(&desk.path().join("again")), "{name} differs");
    }
}

#[test]
fn check_describes_each_direction_of_a_link() {
    let desk = Desk::new();
    desk.write(
        "lossy.toml",
        &SMALL.replace("delay = \"5ms\"", "delay = \"5ms\"\nloss = \"0.5%\"\nqueue = \"1BDP\""),
    );
    let text = desk.warpline(&["check", "--verbose", "lossy.toml"]).fine().stdout;
    for part in [
        "client>server  1 Mbit/s, 5 ms, queue 1 BDP, loss 0.5 %\n",
        "server>client  1 Mbit/s, 5 ms, queue 1 BDP, loss 0.5 %\n",
        "both directions the same loss",
        "reverse = { loss = \"none\" }",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let one = desk
        .warpline(&["check", "-v", "lossy.toml", "--set", "link.0.reverse={ loss = \"none\" }"])
        .fine()
        .stdout;
    assert!(
        one.contains("server>client  1 Mbit/s, 5 ms, queue 1 BDP\n") && !one.contains("both directions"),
        "{one}"
    );
}
