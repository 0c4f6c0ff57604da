//! Checks what programs wait for, and what ends the run.

use std::collections::BTreeSet;

use super::checker::Check;
use super::command::ProgramCommand;
use super::diagnostics::spelling_help;
use super::document::{Step, entry, key};
use super::programs::Named;
use super::ready::{Ready, Until};

/// The key path of entry `number` of `[[host.program]]` of host `i`, and of keys below it.
pub(super) fn program_path(i: usize, number: usize, below: &[&str]) -> Vec<Step> {
    let mut path = entry("host", i, &["program"]);
    path.push(Step::Index(number));
    path.extend(below.iter().map(|name| key(name)));
    path
}

/// Checks names, `ready`, `after` and `until`.
pub(super) fn check(check: &mut Check<'_>) {
    let scenario = check.scenario;
    for (i, host) in scenario.host.iter().enumerate() {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (number, program) in host.programs().iter().enumerate() {
            let at = |below: &[&str]| program_path(i, number, below);
            if let Some(name) = &program.name {
                name_fits(check, &at(&["name"]), name);
                if !names.insert(name) {
                    let message = format!("two programs of host `{}` have the name `{name}`", host.name);
                    check.error(&at(&["name"]), message, "give one of them another `name`");
                }
            }
            if let Some(ready) = &program.ready {
                self::ready(check, &at(&["ready"]), &ready.0);
            }
            for (place, name) in program.after.iter().flatten().enumerate() {
                let mut path = at(&["after"]);
                path.push(Step::Index(place));
                let Some((host, other)) = named(check, &path, name) else { continue };
                if scenario.host[host].programs()[other].ready.is_none() {
                    let message = format!("program `{name}` has no `ready`, so no program can wait for it");
                    check.error(&path, message, "give it one, for example ready = { port = 8080 }");
                }
            }
            if waits_for_itself(check, i, number) {
                let message = "these programs wait for each other, so none would start".to_owned();
                check.error(&at(&["after"]), message, "remove one of them from the other's `after`");
            }
        }
    }
    let Some(Until(conditions)) = &scenario.until else { return };
    let path = vec![key("until")];
    if conditions.is_empty() {
        check.error(&path, "`until` is empty", "for example \"client exits\"");
    }
    for condition in conditions {
        match Until::program(condition) {
            Some(name) => {
                named(check, &path, name);
            }
            None => {
                let message = format!("`until` cannot be {condition:?}");
                check.error(&path, message, "write \"PROGRAM exits\", for example \"client exits\"");
            }
        }
    }
}

/// The program that a name stands for; reports an error if there is no such program.
fn named(check: &mut Check<'_>, path: &[Step], name: &str) -> Option<(usize, usize)> {
    match check.scenario.program_named(name) {
        Named::One(host, number) => Some((host, number)),
        Named::Unknown => {
            let all: Vec<String> = check
                .scenario
                .programs()
                .map(|(_, number, host, program)| match &program.name {
                    Some(name) => name.clone(),
                    None => format!("{}.{number}", host.name),
                })
                .collect();
            let known: Vec<&str> = all.iter().map(String::as_str).collect();
            let mut help = spelling_help(name, &known);
            if known.is_empty() {
                help.push("programs are [[host.program]] of live hosts and guests".to_owned());
            }
            check.errors.about(check.root, path, format!("there is no program `{name}`"), help);
            None
        }
        Named::Several => {
            let message = format!("more than one program is called `{name}`");
            check.error(path, message, "put the host in front, for example \"a.client\"");
            None
        }
    }
}

/// A name becomes part of file names, and must not look like a number.
fn name_fits(check: &mut Check<'_>, path: &[Step], name: &str) {
    check.length(path, name);
    let fits = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c))
        && !name.chars().all(|c| c.is_ascii_digit());
    if !fits {
        let help = "names have letters, digits, `-` and `_`, and not only digits";
        check.error(path, format!("{name:?} cannot be a program's name"), help);
    }
}

fn ready(check: &mut Check<'_>, path: &[Step], ready: &Ready) {
    let empty = |text: &Option<String>| text.as_deref() == Some("");
    let command = ready.command.as_ref().is_some_and(ProgramCommand::is_empty);
    if ready.given() != 1 || ready.port == Some(0) || empty(&ready.prints) || empty(&ready.file) || command {
        let help = "for example ready = { port = 8080 }, \"prints listening\", \"file /tmp/ready\" or \"command curl -s http://localhost/\"";
        check.error(path, "`ready` needs one of `port`, `prints`, `file` and `command`, with a value", help);
    }
    if ready.within.is_some_and(|within| within.0.is_zero()) {
        let mut path = path.to_vec();
        path.push(key("within"));
        check.error(&path, "`within` must be above zero", "for example \"10s\"");
    }
}

/// Whether a program waits for itself, directly or through others.
fn waits_for_itself(check: &Check<'_>, host: usize, number: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = check.scenario.waits_for(host, number);
    while let Some(other) = next.pop() {
        if other == (host, number) {
            return true;
        }
        if seen.insert(other) {
            next.extend(check.scenario.waits_for(other.0, other.1));
        }
    }
    false
}
