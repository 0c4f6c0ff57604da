//! Shell completions, which the shells that are installed accept, and manual pages.

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

#[test]
fn there_is_a_manual_page_for_every_command() {
    let desk = Desk::new();
    let pages = desk.path().join("man/man1");
    desk.warpline(&["man", pages.to_str().unwrap()]).fine();
    for (page, word) in
        [("warpline", "completions"), ("warpline-run", "seeds"), ("warpline-study-run", "declared in Python")]
    {
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains(word), "{page}: {text}");
    }
    // A file is in the way.
    let file = desk.write("file", "");
    let failed = desk.warpline(&["man", file.to_str().unwrap()]);
    assert_eq!(failed.code, Some(3));
    assert!(failed.stderr.contains("cannot make"), "{}", failed.stderr);
}
