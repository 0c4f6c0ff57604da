//! `warpline crosscheck` as a user calls it: ways that agree, and planted faults, each of which must be found and traced to its cause.

use std::process::Command;

use crate::support::{Answer, Desk};

/// A CUBIC flow whose sawtooth decides its goodput: the queue is short. The other flow stays a model.
const SAWTOOTH: &str = r#"name = "sawtooth"
duration = "30s"
warmup = "5s"
link = [{ between = ["a", "b"], rate = "10Mbit/s", delay = "20ms", queue = "20p" }]

[[flow]]
name = "bulk"
from = "a"
to = "b"
"#;

fn check(desk: &Desk, more: &[&str]) -> Answer {
    desk.write("x.toml", SAWTOOTH);
    Answer::from(checking(desk, more).output().unwrap())
}

/// The command, whose certificate has the date 2026-01-31.
fn checking(desk: &Desk, more: &[&str]) -> Command {
    let mut command = desk.program(&[&["crosscheck", "x.toml", "--out", "out"], more].concat());
    command.env("SOURCE_DATE_EPOCH", "1769817600");
    command
}

#[test]
fn what_cannot_be_is_said_with_what_can() {
    let desk = Desk::new();
    for (arguments, part) in [
        (&["--ways", "modell"][..], "model"),
        (&["--ways", "model"], "nothing to compare: `--ways` names one way, `model`; name two"),
        (&["--ways", "model", "--set-in", "linux", "seed=2"], "there is no way `linux` here; ways: model"),
        (&["--ways", "model,linux", "--tdf", "3"], "the way `dilated`, which is not among --ways"),
        (&["--date", "yesterday"], "write it as 2026-11-26"),
        (&["--within=-1"], "no percentage"),
        (&["--set", "flow.bulk.cc=cubik"], "cubic"),
        (
            &["--set-in", "model", "seed=7"],
            "`seed=7` cannot be set here: all ways run with the seeds of `--seeds`",
        ),
        (&["--set", "clock.mode=real"], "`clock.mode=real` cannot be set here: each way has its own clock"),
        (&["--ways", "model,linux", "--set-in", "model", "flow.bulk.cc=cubik"], "cubic"),
    ] {
        let wrong = check(&desk, arguments);
        assert_eq!(wrong.code, Some(2), "{arguments:?}: {wrong:?}");
        assert!(wrong.stderr.contains(part), "{part}: {}", wrong.stderr);
    }
    assert_eq!(desk.names("out"), [""; 0], "nothing was run");
}

#[test]
fn the_certificate_s_schema_is_that_of_the_book() {
    let desk = Desk::new();
    let schema = desk.warpline(&["schema", "--certificate"]).fine();
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/certificate.schema.json");
    assert!(
        std::fs::read_to_string(committed).unwrap_or_default() == schema.stdout,
        "docs/certificate.schema.json is stale: warpline schema --certificate > docs/certificate.schema.json"
    );
    assert_eq!(schema.json()["title"], "Certificate");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod with_guests {
    use std::fs;
    use std::process::{Child, Stdio};

    use serde_json::Value;

    use super::*;

    /// Whether guests can run here.
    fn guests() -> bool {
        let found = warpline_guest::Kernel::find();
        found.map_err(|reason| warpline_skip::skip("program", reason.to_string())).is_ok()
    }

    /// The comparison of a way with another, in a certificate.
    fn pair<'a>(certificate: &'a Value, way: &str) -> &'a Value {
        let pairs = certificate["pairs"].as_array().unwrap();
        pairs.iter().find(|pair| pair["way"] == way).unwrap_or_else(|| panic!("no {way}: {certificate:#}"))
    }

    /// What a difference is said to come from.
    fn cause(certificate: &Value, way: &str) -> String {
        let cause = &pair(certificate, way)["explanation"]["cause"];
        cause.as_str().unwrap_or_else(|| panic!("not explained: {certificate:#}")).to_owned()
    }

    #[test]
    fn the_model_and_linux_agree_and_the_runs_are_kept() {
        if !guests() {
            return;
        }
        let desk = Desk::new();
        let ways = ["--ways", "model,linux", "--seeds", "1..2"];
        let certificate = check(&desk, &[&ways[..], &["--json"]].concat()).fine().json();
        assert_eq!(desk.names("out"), ["certificate.html", "certificate.json", "kept", "scenarios"]);
        assert_eq!(desk.names("out/scenarios"), ["linux.toml", "model.toml"]);
        let written = fs::read_to_string(desk.path().join("out/certificate.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), certificate);
        assert_eq!(certificate["date"], "2026-01-31");
        // With two seeds, much is within chance.
        let outcome = certificate["outcome"].as_str().unwrap();
        assert!(["agrees", "chance"].contains(&outcome), "{certificate:#}");
        assert_eq!(certificate["ways"][0]["repeats"], true, "{certificate:#}");
        assert!(certificate["ways"][0]["kernels"][0].as_str().unwrap().starts_with("6."), "{certificate:#}");
        let goodput = &pair(&certificate, "model")["compared"][0];
        assert_eq!(goodput["quantity"], "goodput");
        assert!(goodput["value"]["mean"].as_f64().unwrap() > 5e6, "{goodput}");
        // The page cites what the figures are of.
        let page = fs::read_to_string(desk.path().join("out/certificate.html")).unwrap();
        for part in [
            "2026-01-31",
            certificate["scenario"]["hash"].as_str().unwrap(),
            "Linux 6.",
            "Content-Security-Policy",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script"));
        // The same command takes what was kept: another goodput in the files of Linux's runs is what it shows.
        let kept = desk.names("out/kept");
        let linux =
            kept.iter().find(|name| name.starts_with("linux-linux-6.")).unwrap_or_else(|| panic!("{kept:?}"));
        for file in desk.names(&format!("out/kept/{linux}")) {
            let path = desk.path().join("out/kept").join(linux).join(file);
            let mut ran: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            ran["summary"]["groups"][0]["goodput_bps"] = 1_234_567.0.into();
            fs::write(&path, ran.to_string()).unwrap();
        }
        let again = check(&desk, &[&ways[..], &["--no-narrow", "--all"]].concat());
        assert!(again.stdout.contains("linux 1.23 Mbit/s"), "{again:?}");
        // A scenario of a way makes its runs.
        desk.warpline(&["run", "out/scenarios/linux.toml", "--no-report", "--out", "one"]).fine();
        let goodput = desk.summary("one")["groups"][0]["goodput_bps"].as_f64().unwrap();
        let linux = pair(&certificate, "model")["compared"][0]["reference"]["mean"].as_f64().unwrap();
        assert!((goodput / linux - 1.0).abs() < 0.01, "{goodput} {linux}");
    }

    #[test]
    fn a_wrong_constant_of_cubic_is_traced_to_the_model() {
        if !guests() {
            return;
        }
        let desk = Desk::new();
        let planted = ["--set-in", "model", "flow.bulk.cc=cubic:beta=0.2"];
        let ways = ["--ways", "model,linux", "--seeds", "1..2", "--json"];
        let certificate = check(&desk, &[&planted[..], &ways].concat()).fine().json();
        assert_eq!(certificate["outcome"], "explained");
        assert_eq!(cause(&certificate, "model"), "model");
        let experiments = pair(&certificate, "model")["explanation"]["experiments"].as_array().unwrap();
        let found: Vec<&str> = experiments
            .iter()
            .filter(|experiment| experiment["verdict"] == "agrees")
            .map(|experiment| experiment["from"].as_str().unwrap())
            .collect();
        assert_eq!(
            found,
            ["the change `flow.bulk.cc=cubic:beta=0.2` of model", "the congestion control"],
            "{experiments:#?}"
        );
        let strict = check(&desk, &[&planted[..], &ways, &["--strict"]].concat());
        assert_eq!(strict.code, Some(1), "{strict:?}");
    }

    #[test]
    fn a_wrong_delay_is_traced_to_the_path() {
        if !guests() {
            return;
        }
        let desk = Desk::new();
        let planted = ["--set-in", "linux", "link.0.delay=35ms"];
        let certificate =
            check(&desk, &[&planted[..], &["--ways", "model,linux", "--seeds", "1", "--json"]].concat());
        let certificate = certificate.fine().json();
        assert_eq!(cause(&certificate, "model"), "path");
        let evidence = pair(&certificate, "model")["explanation"]["evidence"].to_string();
        for part in ["in linux the link a>b has a delay of 35.000 ms", "the shortest round trip of `bulk`"] {
            assert!(evidence.contains(part), "{part}: {evidence}");
        }
    }

    #[test]
    fn after_an_interruption_the_same_command_goes_on() {
        if !guests() {
            return;
        }
        let desk = Desk::new();
        desk.write("x.toml", SAWTOOTH);
        let ways = ["--ways", "model,linux", "--seeds", "1..6", "--jobs", "1"];
        let mut child = checking(&desk, &ways).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let kept = || {
            desk.names("out/kept")
                .iter()
                .map(|way| desk.names(&format!("out/kept/{way}")).len())
                .sum::<usize>()
        };
        while kept() == 0 {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before anything was kept");
            crate::support::pause();
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let answer = Answer::from(child.wait_with_output().unwrap());
        assert_eq!(answer.code, Some(130), "{answer:?}");
        assert!(answer.stderr.contains("what has run is kept in out/kept"), "{answer:?}");
        assert_eq!(desk.names("out"), ["kept"]);
        let before = kept();
        check(&desk, &ways).fine();
        // Six seeds and one of them again, of two ways; none twice.
        assert!((1..14).contains(&before) && kept() == 14, "{before} {}", kept());
    }

    /// Processes that do nothing but compute; they end with this.
    struct Burners(Vec<Child>);

    impl Burners {
        fn new() -> Burners {
            let count = 4 * std::thread::available_parallelism().map_or(1, usize::from);
            let one = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
            Burners((0..count).map(one).collect())
        }
    }

    impl Drop for Burners {
        fn drop(&mut self) {
            for burner in &mut self.0 {
                let _ = burner.kill();
                let _ = burner.wait();
            }
        }
    }

    #[test]
    fn a_busy_machine_is_traced_to_the_cpu() {
        if !guests() {
            return;
        }
        let _turn = crate::live::alone();
        let desk = Desk::new();
        // Many packets and a short round trip, which a kernel that waits for a processor makes long.
        let fast = [
            "--set",
            "link.0.rate=50Mbit/s",
            "--set",
            "link.0.delay=1ms",
            "--set",
            "duration=4s",
            "--set",
            "warmup=1s",
        ];
        // One seed: how much a busy machine disturbs a run is chance. Lock-step has its runs before, which are kept.
        let ways = |ways: &str| {
            let more = ["--ways", ways, "--seeds", "1", "--no-narrow", "--json"];
            check(&desk, &[&fast[..], &more].concat())
        };
        ways("linux,model");
        let burners = Burners::new();
        let certificate = ways("linux,real");
        drop(burners);
        let certificate = certificate.fine().json();
        assert_eq!(cause(&certificate, "real"), "cpu");
        let evidence = pair(&certificate, "real")["explanation"]["evidence"].to_string();
        assert!(evidence.contains("other work took"), "{evidence}");
    }

    #[test]
    fn every_way_of_a_machine_is_there_or_says_why_not() {
        let Some(_turn) = crate::live::turn(&[]) else { return };
        if !guests() {
            return;
        }
        let desk = Desk::new();
        let short = [
            "--set",
            "duration=3s",
            "--set",
            "warmup=1s",
            "--seeds",
            "1",
            "--tdf",
            "1.5",
            "--no-narrow",
            "--json",
        ];
        let certificate = check(&desk, &short).json();
        let ways = certificate["ways"].as_array().unwrap();
        let names: Vec<&str> = ways.iter().map(|way| way["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["linux", "model", "dilated", "real", "live"]);
        for way in ways {
            assert_eq!((&way["not_possible"], &way["failed"]), (&Value::Null, &Value::Null), "{way:#}");
            assert_eq!(way["runs"].as_array().unwrap().len(), 1, "{way:#}");
        }
        assert_eq!(ways[2]["clock"], "dilated, TDF 1.5");
        let goodput = &pair(&certificate, "live")["compared"][0];
        assert_eq!((&goodput["subject"], &goodput["quantity"]), (&"flow bulk".into(), &"goodput".into()));
        assert!(goodput["value"]["mean"].as_f64().unwrap() > 1e6, "{goodput}");
        // A flow that Linux does not have leaves one way. Not `nice`: the machine's kernel may have it (`warpline nice load`).
        let ledbat = check(&desk, &[&["--set", "flow.bulk.cc=ledbat"], &short[..]].concat());
        assert_eq!(ledbat.code, Some(2), "{ledbat:?}");
        assert!(
            ledbat.stderr.contains("Linux 6.")
                && ledbat.stderr.contains("has no congestion control `ledbat`"),
            "{ledbat:?}"
        );
    }
}
