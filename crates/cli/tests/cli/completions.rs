//! Shell completions: the shells that are installed accept their scripts.

use std::process::Command;

use crate::support::Desk;

#[test]
fn the_script_for_every_shell_names_all_commands() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.warpline(&["completions", shell]).fine().stdout;
        for word in ["run", "check", "report", "compare", "export", "schema", "bench", "no-report"] {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
    }
}

#[test]
fn installed_shells_parse_their_scripts() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = desk.write(shell, &desk.warpline(&["completions", shell]).fine().stdout);
        // A shell that is not installed cannot be tested; bash exists wherever `make` runs.
        if let Ok(output) = Command::new(shell).arg("-n").arg(&script).output() {
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn an_unknown_shell_is_refused() {
    assert_eq!(Desk::new().warpline(&["completions", "dos"]).code, Some(2));
}
