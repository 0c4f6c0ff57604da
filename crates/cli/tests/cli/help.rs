//! Help texts as snapshots, which show every change of the command line.

use crate::support::Desk;

#[test]
fn help_of_every_command() {
    let desk = Desk::new();
    let mut waiting = vec![Vec::new()];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = desk.warpline(&words).fine().stdout;
        waiting.extend(commands(&help).map(|name| [command.clone(), vec![name.to_owned()]].concat()));
        // On other systems, Linux-only commands are missing, so the list of commands differs.
        if !command.is_empty() || cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            let name = if command.is_empty() { "warpline".to_owned() } else { command.join("-") };
            insta::with_settings!({ omit_expression => true }, {
                insta::assert_snapshot!(format!("help-{name}"), help);
            });
        }
        count += 1;
    }
    assert!(count > 15, "only {count} commands were found");
}

/// The commands that a help text lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !["", "help"].contains(name))
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
