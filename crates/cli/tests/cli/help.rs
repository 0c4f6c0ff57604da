//! Help texts as snapshots, which show every change of the command line.

use crate::support::Desk;

#[test]
fn help_of_every_command() {
    let desk = Desk::new();
    // On other systems, Linux-only commands are missing, so the list of commands differs.
    let commands = [
        "dilate",
        "",
        "cap",
        "capd",
        "treno",
        "nice",
        "shell",
        "replicate",
        "prefetch",
        "calibrate",
        "doctor",
        "clean",
        "service",
        "run",
        "check",
        "report",
        "compare",
        "export",
        "schema",
        "bench",
        "evaluate",
        "completions",
    ];
    // The list of commands has `dilate` on x86-64 only.
    let elsewhere = match (cfg!(target_os = "linux"), cfg!(target_arch = "x86_64")) {
        (true, true) => 0,
        (true, false) => 2,
        _ => 13,
    };
    for command in &commands[elsewhere..] {
        let arguments: Vec<&str> = [*command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let help = desk.warpline(&arguments).fine().stdout;
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(format!("help-{}", if command.is_empty() { "warpline" } else { command }), help);
        });
    }
}

#[test]
fn short_help_is_short() {
    let lines = Desk::new().warpline(&["run", "-h"]).fine().stdout.lines().count();
    assert!(lines <= 30, "{lines} lines");
}

#[test]
fn version_is_the_package_version() {
    let answer = Desk::new().warpline(&["--version"]).fine();
    assert_eq!(answer.stdout, format!("warpline {}\n", env!("CARGO_PKG_VERSION")));
}
