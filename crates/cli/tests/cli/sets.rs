//! Sets of seeds: compare, report, export; and messages about seeds that fail.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use crate::support::Desk;

/// Two sets of the same seeds of a lossy link, which differ in the congestion control.
fn desk() -> Desk {
    let desk = Desk::new();
    let lossy = crate::support::SMALL
        .replace("delay = \"5ms\"", "delay = \"5ms\"\nloss = { kind = \"bernoulli\", probability = 0.01 }");
    desk.write("lossy.toml", &(lossy + "name = \"bulk\"\ncc = \"cubic\"\n"));
    for (out, cc) in [("cubic", "flow.bulk.cc=cubic"), ("vegas", "flow.bulk.cc=vegas")] {
        desk.warpline(&["run", "lossy.toml", "--seeds", "1..4", "--out", out, "--set", cc]).fine();
    }
    desk
}

#[test]
fn sets_of_seeds_are_compared_pair_by_pair() {
    let desk = desk();
    let text = desk.warpline(&["compare", "cubic", "vegas"]).fine().stdout;
    for part in [
        "A: cubic (4 seeds: 1 to 4)",
        "Changed in the scenario\n  flow.bulk.cc: cubic -> vegas\n",
        "mean difference from seed to the same seed",
        "Changed beyond the noise of the seeds (",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Flow bulk.0"), "the only flow of a group is the group: {text}");
    let answer = desk.warpline(&["compare", "cubic", "vegas", "--json"]).fine();
    let json: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!((&json["method"], &json["scenario"][0]["key"]), (&"paired".into(), &"flow.bulk.cc".into()));
    assert!(json["changes"][0]["ci95"].is_number(), "{json}");
    // A single run is compared with a set by means, without an interval.
    let mixed = desk.warpline(&["compare", "cubic/seed-1", "vegas"]).fine().stdout;
    assert!(mixed.contains("by Welch's interval") && mixed.contains("a single run"), "{mixed}");
}

#[test]
fn sets_without_a_complete_run_are_not_compared() {
    let desk = Desk::new();
    desk.warpline(&["run", "small.toml", "--seeds", "1..2", "--out", "whole"]).fine();
    desk.warpline(&["run", "small.toml", "--seeds", "1..2", "--out", "cut"]).fine();
    for seed in ["cut/seed-1", "cut/seed-2"] {
        let path = desk.path().join(seed).join("summary.json");
        let text = fs::read_to_string(&path).unwrap();
        let cut = text.replace("\"complete\": true", "\"complete\": false");
        assert_ne!(text, cut);
        fs::write(path, cut).unwrap();
    }
    for pair in [["cut", "whole"], ["whole", "cut"], ["cut", "cut"]] {
        let answer = desk.warpline(&["compare", pair[0], pair[1]]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        for part in ["cut: no run of the set is complete", "may be incomplete: cut/seed-1"] {
            assert!(answer.stderr.contains(part), "{answer:?}");
        }
    }
    desk.warpline(&["compare", "cut/seed-1", "whole/seed-1"]).fine();
}

#[test]
fn a_figure_takes_one_command() {
    let desk = desk();
    let answer =
        desk.warpline(&["compare", "cubic", "vegas", "--plot", "throughput", "--output", "t.svg"]).fine();
    assert_eq!(answer.stdout, "Figure: t.svg\n");
    let svg = fs::read_to_string(desk.path().join("t.svg")).unwrap();
    assert!(svg.contains("Throughput (Mbit/s)") && svg.matches("<polygon").count() == 2, "{svg}");
    assert!(svg.contains(">cubic</text>") && svg.contains(">vegas</text>"), "{svg}");
    desk.warpline(&["compare", "cubic", "vegas", "--plot", "cwnd", "--of", "bulk", "--output", "c.pdf"])
        .fine();
    assert!(fs::read(desk.path().join("c.pdf")).unwrap().starts_with(b"%PDF-"));
    desk.warpline(&["compare", "cubic", "vegas", "--plot", "delay"]).fine();
    let delay = fs::read_to_string(desk.path().join("delay.svg")).unwrap();
    assert!(delay.contains("Queueing delay of client&gt;server (ms)"), "{delay}");
    // Two runs of the same name: the lines of the figure bear as much of their paths as it takes.
    desk.warpline(&["compare", "cubic/seed-1", "vegas/seed-1", "--plot", "cwnd"]).fine();
    let cwnd = fs::read_to_string(desk.path().join("cwnd.svg")).unwrap();
    assert!(cwnd.contains(">cubic/seed-1</text>") && cwnd.contains(">vegas/seed-1</text>"), "{cwnd}");
    for (arguments, part) in [
        (&["--plot", "cwnd", "--output", "c.png"][..], "does not end in .svg or .pdf"),
        (&["--plot", "cwnd", "--of", "nobody"], "its groups are bulk"),
        (&["--plot", "colour"], "goodput"),
        (&["--output", "x.svg"], "--plot"),
    ] {
        let refused = desk.warpline(&[&["compare", "cubic", "vegas"], arguments].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let nowhere =
        desk.warpline(&["compare", "cubic", "vegas", "--plot", "cwnd", "--output", "no/such/c.svg"]);
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
}

#[test]
fn reports_of_sets_show_means_and_intervals() {
    let desk = desk();
    let own = fs::read_to_string(desk.path().join("cubic/report.html")).unwrap();
    assert!(own.contains("<title>small, 4 seeds"));
    desk.warpline(&["report", "cubic", "vegas"]).fine();
    let both = fs::read_to_string(desk.path().join("report.html")).unwrap();
    assert!(both.contains("<title>2 sets of seeds") && both.contains("\"ci95\""));
    desk.warpline(&["report", "vegas"]).fine();
    let refused = desk.warpline(&["report", "."]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("neither summary.json nor runs of seeds"), "{refused:?}");
}

#[test]
fn tables_are_exported() {
    let desk = desk();
    let csv = desk.warpline(&["export", "cubic"]).fine().stdout;
    assert!(csv.starts_with("seed,flow,name,group,") && csv.lines().count() == 5, "{csv}");
    let json = desk.warpline(&["export", "cubic/seed-2", "--table", "links", "--json"]).fine().stdout;
    let links: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&links[0]["name"], links[0].get("seed")), (&"client>server".into(), None));
    let long = desk.warpline(&["export", "cubic", "-t", "series_flows", "--long"]).fine().stdout;
    assert!(long.starts_with("seed,time_s,flow,name,metric,unit,value\n"), "{}", &long[..200]);
    let lines =
        desk.warpline(&["export", "cubic", "--table", "flows", "--table", "links", "--influx"]).fine().stdout;
    assert!(lines.starts_with("flows,seed=1,") && lines.contains("\nlinks,seed=1,"), "{lines}");
    desk.warpline(&["export", "cubic", "--table", "all", "--parquet", "--output", "tables"]).fine();
    assert!(desk.names("tables").contains(&"series_links.parquet".to_owned()));
    desk.warpline(&["export", "cubic", "--output", "f.csv"]).fine();
    // A slash makes it a directory, for one table, too; and the name of other commands for the file is understood.
    desk.warpline(&["export", "cubic", "--out", "one/"]).fine();
    assert_eq!(desk.names("one"), ["flows.csv"]);
    assert_eq!(fs::read_to_string(desk.path().join("f.csv")).unwrap(), csv);
    for (arguments, code, part) in [
        (&["export", "nowhere"][..], 2, "is not a run directory"),
        (&["export", "cubic", "--table", "flow"], 2, "series_flows"),
        (&["export", "cubic", "--table", "all"], 2, "--output"),
        (&["export", "cubic", "--csv", "--json"], 2, "cannot be used with"),
        (&["export", "cubic", "--output", "no/such/f.csv"], 3, "no/such/f.csv"),
    ] {
        let refused = desk.warpline(arguments);
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn qlog_is_exported_in_both_forms() {
    let desk = Desk::new();
    desk.warpline(&["run", "small.toml", "--quiet", "--out", "none"]).fine();
    let recorded = ["run", "small.toml", "--quiet", "--set", "flow[0].record=[\"qlog\"]", "--out", "run"];
    desk.warpline(&recorded).fine();
    let traces = |directory: &str| -> Vec<String> {
        desk.names(directory).into_iter().filter(|name| name.ends_with(".sqlog")).collect()
    };
    let own = traces("run");
    assert!(!own.is_empty());
    let text = |name: &str| fs::read_to_string(desk.path().join(name)).unwrap();
    for (form, shows) in [(&["--qlog"][..], "file_schema"), (&["--qlog", "0.3"], "qlog_version")] {
        let arguments = [&["export", "run", "--output", "traces"], form].concat();
        fs::create_dir(desk.path().join("traces")).unwrap();
        desk.warpline(&arguments).fine();
        assert_eq!(traces("traces"), own);
        let (before, after) = (text(&format!("run/{}", own[0])), text(&format!("traces/{}", own[0])));
        assert!(after[..100].contains(shows), "{}", &after[..100]);
        assert_eq!(before.lines().count(), after.lines().count());
        assert_eq!(before == after, form.len() == 1);
        fs::remove_dir_all(desk.path().join("traces")).unwrap();
    }
    for (arguments, part) in [
        (&["export", "none", "--qlog"][..], "record = [\"qlog\"]"),
        (&["export", "run", "--qlog", "1.0"], "possible values: draft, 0.3"),
        (&["export", "run", "--qlog", "--csv"], "cannot be used with"),
    ] {
        let refused = desk.warpline(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn the_reader_of_an_export_may_close_the_pipe() {
    let desk = desk();
    let mut child = desk
        .program(&["export", "cubic", "--table", "series_flows", "--long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn seeds_whose_programs_fail_are_named_once_with_their_output() {
    let Some(_turn) = crate::live::turn(&[]) else { return };
    let desk = Desk::new();
    // The program fails with the second seed, which it knows from a counter in a file.
    let here = desk.path().display();
    let program = format!("test $((n)) -ne 1; s=$?; echo $((n + 1)) > {here}/n; exit $s");
    let line = format!("read n < {here}/n; n=${{n:-0}}; {program}");
    desk.write("n", "0\n");
    desk.write(
        "fails.toml",
        &format!(
            "name = \"fails\"\nduration = \"600s\"\nuntil = \"a.0 exits\"\nclock = {{ mode = \"real\" }}\n\
             link = [{{ between = [\"a\", \"b\"], rate = \"1Gbit/s\", delay = \"1ms\", record = [\"pcap\"] }}]\n\
             [[host]]\nname = \"a\"\nendpoint = \"live\"\nprogram = [{{ command = [\"sh\", \"-c\", {line:?}] }}]\n"
        ),
    );
    let answer = desk.warpline(&["run", "fails.toml", "--seeds", "1..4", "--out", "set", "--no-report"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let errors: Vec<&str> = answer.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{answer:?}");
    assert!(errors[0].contains("error: seed 2: "), "{answer:?}");
    assert!(answer.stderr.contains("set/seed-2/"), "{answer:?}");
    assert!(
        answer.stdout.contains("Ran 4 seeds in") && answer.stdout.contains("; 1 seed went wrong"),
        "{answer:?}"
    );
    assert_eq!(desk.names("set"), ["replications.json", "seed-1", "seed-2", "seed-3", "seed-4"]);
}
