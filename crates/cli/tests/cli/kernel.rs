//! `warpline kernel`, and guests with kernels of their own.

use std::path::PathBuf;

use crate::support::Desk;

/// The machine's kernel; none, after saying why the test is skipped, if there is none.
fn own() -> Option<PathBuf> {
    match warpline_guest::Kernel::find() {
        Ok(kernel) => Some(kernel.path),
        Err(error) => {
            warpline_skip::skip("program", error);
            None
        }
    }
}

/// Runs `warpline` with a directory of kernels on the desk.
fn warpline(desk: &Desk, arguments: &[&str]) -> crate::support::Answer {
    let mut program = desk.program(arguments);
    program.env("WARPLINE_KERNELS", desk.path().join("kernels")).output().unwrap().into()
}

/// Two guests, each on a machine of its own with this kernel.
fn scenario(kernels: [&str; 2]) -> String {
    let host = |name: &str, kernel: &str| {
        format!(
            "[[host]]\nname = \"{name}\"\nendpoint = \"guest\"\n{}\n",
            match kernel {
                "" => String::new(),
                named => format!("kernel = \"{named}\"\n"),
            }
        )
    };
    format!(
        "duration = \"2s\"\n\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"5ms\"\n\n{}\n{}\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n",
        host("a", kernels[0]),
        host("b", kernels[1]),
    )
}

#[test]
fn guests_of_one_run_have_kernels_of_their_own() {
    let Some(own) = own() else { return };
    let desk = Desk::new();
    let added = warpline(&desk, &["kernel", "add", &own.to_string_lossy(), "--name", "mine"]).fine();
    assert!(added.stdout.contains("as `mine`"), "{added:?}");
    let listed = warpline(&desk, &["kernel", "list", "--json"]).fine();
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed[0]["name"], &listed[1]["name"]),
        (&serde_json::Value::Null, &"mine".into()),
        "{listed}"
    );
    assert!(listed[1]["congestion_controls"].as_array().unwrap().contains(&"cubic".into()), "{listed}");
    desk.write("two.toml", &scenario(["mine", ""]));
    warpline(&desk, &["run", "two.toml", "--out", "run"]).fine();
    let summary = desk.summary("run");
    let version = &listed[1]["version"];
    assert_eq!(&summary["guests"]["kernel"], version);
    assert_eq!(&summary["guests"]["machines"][0]["kernel"], version);
    assert!(summary["flows"][0]["delivered_bytes"].as_u64().unwrap() > 1_000_000, "{summary}");
    // The name of a version is not clear any more.
    desk.write("two.toml", &scenario([version.as_str().unwrap(), ""]));
    let wrong = warpline(&desk, &["run", "two.toml", "--out", "wrong"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("mine, the machine's own"), "{wrong:?}");
    warpline(&desk, &["kernel", "remove", "mine"]).fine();
    warpline(&desk, &["run", "two.toml", "--out", "right"]).fine();
}

#[test]
fn a_kernel_that_is_not_there_is_told_with_those_that_are() {
    if own().is_none() {
        return;
    }
    let desk = Desk::new();
    desk.write("none.toml", &scenario(["5.4", ""]));
    let wrong = warpline(&desk, &["run", "none.toml", "--out", "run"]);
    for part in ["there is no guest kernel `5.4`; there are: 6.", "warpline kernel add"] {
        assert!(wrong.code == Some(1) && wrong.stderr.contains(part), "{part}: {wrong:?}");
    }
    desk.write("file.toml", &scenario(["./linux", ""]));
    desk.write("linux", "#!/bin/sh\n");
    let wrong = warpline(&desk, &["run", "file.toml", "--out", "run"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("it is not a program"), "{wrong:?}");
}

#[test]
fn what_is_wrong_with_a_kernel_is_told_before_anything_is_built() {
    let desk = Desk::new();
    desk.write("README", "no kernel");
    for (arguments, part) in [
        (
            &["kernel", "build", "5.4"][..],
            "these are the sources of Linux 5.4; Warpline only knows how Linux 6.1 and 6.12",
        ),
        (&["kernel", "build", "./"], "has no sources of Linux"),
        (&["kernel", "build", "6.12", "--hz", "50"], "50 is not in 100..=1000"),
        (&["kernel", "add", "README"], "it is not a program"),
        (&["kernel", "remove", "mine"], "there is no kernel of this name"),
    ] {
        let wrong = warpline(&desk, arguments);
        assert!(wrong.code == Some(2) && wrong.stderr.contains(part), "{part}: {wrong:?}");
    }
    assert!(!desk.path().join("kernels").exists());
}

#[test]
fn guests_of_one_machine_cannot_differ() {
    let desk = Desk::new();
    let text = scenario(["6.1", "6.12"])
        .replace("endpoint = \"guest\"\n", "endpoint = \"guest\"\nmachine = \"m\"\n");
    desk.write("one.toml", &text);
    let wrong = desk.warpline(&["check", "one.toml"]);
    for part in ["`kernel`", "on one machine, with different kernels", "one.toml:12:"] {
        assert!(wrong.code == Some(2) && wrong.stderr.contains(part), "{part}: {wrong:?}");
    }
    let text =
        scenario(["", ""]).replacen("endpoint = \"guest\"\n", "endpoint = \"guest\"\ntsc = \"machine\"\n", 1);
    desk.write("one.toml", &text);
    let wrong = desk.warpline(&["check", "one.toml"]);
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("nothing in a guest sees the machine's time"),
        "{wrong:?}"
    );
}

#[test]
fn bisect_says_which_kernel_changes_what_a_scenario_does() {
    let Some(own) = own() else { return };
    let desk = Desk::new();
    for name in ["one", "two", "three"] {
        warpline(&desk, &["kernel", "add", &own.to_string_lossy(), "--name", name]).fine();
    }
    let text = scenario(["", ""]).replace("delay = \"5ms\"", "delay = \"5ms\"\nrecord = [\"pcap\"]");
    desk.write("same.toml", &text);
    let kernels = ["--kernels", "one,two,three", "--json"];
    let found = warpline(&desk, &[&["bisect", "same.toml"][..], &kernels].concat()).fine().json();
    // The first and the last give the same packets, so that the one between is not tried.
    assert_eq!((&found["change"], found["trials"].as_array().unwrap().len()), (&serde_json::Value::Null, 2));
    assert!(desk.path().join("runs/bisect-same/three/a-b.pcapng").exists(), "{found}");
    // Runs that are there are not replaced unless that is asked for.
    let again = warpline(&desk, &[&["bisect", "same.toml"][..], &kernels].concat());
    assert!(again.code == Some(3) && again.stderr.contains("with kernel `one`: "), "{again:?}");
    // A condition that fails with both kernels is reported, and is no change.
    let condition = ["--expect", "flow.bulk.0.goodput_bps > 1Gbit/s", "--force"];
    let missed =
        warpline(&desk, &[&["bisect", "same.toml"][..], &kernels, &condition].concat()).fine().json();
    assert!(missed["trials"][1]["told"][0].as_str().unwrap().contains("expected flow"), "{missed}");
    desk.write("mute.toml", &scenario(["", ""]));
    for (arguments, part) in [
        (&["bisect", "mute.toml", "--kernels", "one,two"][..], "nothing says how the scenario behaves"),
        (
            &["bisect", "same.toml", "--kernels", "one,two", "--set", "clock.mode=real"],
            "under the real clock packets never come at the same times twice",
        ),
        (&["bisect", "same.toml", "--kernels", "one"], "name at least two"),
        (
            &["bisect", "same.toml", "--kernels", "one,two", "--host", "c"],
            "`c` is no guest of the scenario; guests: a, b",
        ),
        (&["bisect", "same.toml", "--commits", ".", "--range", "x"], "`x` is no range of commits"),
    ] {
        let wrong = warpline(&desk, &[arguments, &["--out", "wrong"]].concat());
        assert!(wrong.code == Some(2) && wrong.stderr.contains(part), "{part}: {wrong:?}");
    }
}
