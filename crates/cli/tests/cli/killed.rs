//! What a live run, a shell and a background command leave when they are killed: nothing, since a second process cleans up. And if that is killed as well,
//! `warpline clean` does it, or the next run. They need root; otherwise the tests are skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use warpline_live::registry;

use crate::interrupt::kill;
use crate::live::{alone, processes, sleeper, turn, with_word};
use crate::support::{Desk, pause, wait_until};

/// The numbers of the processes that wait for the end of this one, to clean up after it.
fn keepers(pid: u32) -> Vec<String> {
    let words = format!("\0--clean-up-after\0{pid}\0");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.map(|entry| entry.file_name().into_string().unwrap());
    let has = |number: &String| {
        fs::read_to_string(format!("/proc/{number}/cmdline")).is_ok_and(|line| line.contains(&words))
    };
    numbers.filter(has).collect()
}

/// The same for a process that has one.
#[track_caller]
fn keeper(child: &Child) -> String {
    let mut found = keepers(child.id());
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Kills a process and the one that would clean up after it.
pub(crate) fn kill_both(child: &mut Child) {
    assert!(Command::new("kill").args(["-KILL", &keeper(child)]).status().unwrap().success());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Kills a process, and waits until its session is cleaned up by the other one.
fn kill_and_wait(child: &mut Child) {
    keeper(child);
    child.kill().unwrap();
    child.wait().unwrap();
    let record = format!("{}-", child.id());
    let directory = registry::directory().unwrap();
    wait_until("the end of the second process", || {
        keepers(child.id()).is_empty()
            && !directory.names().unwrap().iter().any(|name| name.starts_with(&record))
    });
}

fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

/// How many processes are in a network namespace.
fn inside(space: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|process| namespace(&process.path()).is_some_and(|its| its == space)).count()
}

#[test]
fn a_killed_run_leaves_no_program_and_no_namespace() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let mut run = sleeper(&desk, "86501");
    let spaces: BTreeSet<PathBuf> =
        with_word("86501").iter().filter_map(|process| namespace(process)).collect();
    assert!(spaces.len() == 1 && !spaces.contains(&namespace(Path::new("/proc/self")).unwrap()));
    kill_and_wait(&mut run);
    assert_eq!(processes("86501"), 0);
    // A namespace ends with the last process in it.
    wait_until("the end of its namespace", || spaces.iter().all(|space| inside(space) == 0));
}

#[test]
fn who_would_clean_up_goes_with_the_run_and_not_before() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let run = sleeper(&desk, "86511");
    let (pid, second) = (run.id(), keeper(&run));
    // Who waits for the end of the run's output does not wait for this one.
    for descriptor in 0..3 {
        let open = fs::read_link(format!("/proc/{second}/fd/{descriptor}")).unwrap();
        assert_eq!(open, Path::new("/dev/null"));
    }
    // A request to end is for the run.
    for signal in ["-HUP", "-INT", "-QUIT", "-TERM"] {
        assert!(Command::new("kill").args([signal, &second]).status().unwrap().success());
    }
    pause();
    assert_eq!(keepers(pid), [second]);
    kill(&run, "-TERM");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(130));
    assert!(keepers(pid).is_empty());
    assert_eq!(processes("86511"), 0);
}

/// A shell whose command has a process in front and one in the background; and its network namespace.
fn shell(desk: &Desk) -> (Child, PathBuf) {
    let script = "readlink /proc/self/ns/net > namespace; setsid sleep 3011 & sleep 3012; true";
    let mut command = desk.program(&["shell", "--", "sh", "-c", script]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().unwrap();
    loop {
        let space = fs::read_to_string(desk.path().join("namespace")).unwrap_or_default();
        // The script, and what it has started.
        if space.ends_with('\n') && inside(Path::new(space.trim())) >= 3 {
            return (child, PathBuf::from(space.trim()));
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        pause();
    }
}

#[test]
fn a_killed_shell_leaves_no_process_of_its_command() {
    let Some(_turn) = turn(&["setsid"]) else { return };
    let desk = Desk::new();
    let (mut child, space) = shell(&desk);
    kill_and_wait(&mut child);
    wait_until("the end of its namespace", || inside(&space) == 0);
}

#[test]
fn clean_removes_what_nobody_has_removed() {
    let Some(_turn) = turn(&["setsid"]) else { return };
    let desk = Desk::new();
    let (mut child, space) = shell(&desk);
    kill_both(&mut child);
    // The direct child has died with it; what that has started is found.
    let cleaned = desk.warpline(&["clean"]).fine();
    // The message comes first; another test's command may have ended the processes before. They may not have become `sleep` yet.
    let said = cleaned.stderr.contains("ending process") && cleaned.stderr.contains("left by warpline shell");
    let found = cleaned.stdout.contains(&format!("warpline shell (process {})", child.id()));
    assert!(said || !found, "{cleaned:?}");
    wait_until("the end of the processes", || inside(&space) == 0);
}

#[test]
fn a_killed_background_command_leaves_no_process() {
    let Some(_kernel) = crate::nice::able(&[]) else { return };
    let _turn = alone();
    let desk = Desk::new();
    let mut command = desk.program(&["nice", "--", "sh", "-c", "sleep 86521; true"]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().unwrap();
    wait_until("the begin of the command", || processes("86521") > 0);
    kill_and_wait(&mut child);
    assert_eq!(processes("86521"), 0);
}
