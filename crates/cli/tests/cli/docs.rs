//! The documentation: every scenario in it loads, and every command that it names exists.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Desk;

/// README and the book's chapters.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let chapters = fs::read_dir(root.join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let chapters = chapters.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    [root.join("README.md"), root.join("CONTRIBUTING.md")].into_iter().chain(chapters).collect()
}

/// The fenced blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(name), None) => open = Some((name, String::new())),
            (Some(_), Some(_)) => {
                blocks.extend(open.take().filter(|(name, _)| *name == language).map(|block| block.1))
            }
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn scenarios_in_the_documentation_are_valid() {
    let desk = Desk::new();
    let mut count = 0;
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap(), "toml") {
            desk.write("block.toml", &block);
            let answer = desk.warpline(&["check", "block.toml"]);
            assert_eq!(answer.code, Some(0), "{}:\n{}", page.display(), answer.stderr);
            count += 1;
        }
    }
    assert!(count > 5, "only {count} scenarios were found");
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn every_command_has_a_row_in_the_chapter_on_the_command_line() {
    let desk = Desk::new();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/command-line.md"))
            .unwrap();
    let help = desk.warpline(&["--help"]).fine().stdout;
    let studies = desk.warpline(&["study", "--help"]).fine().stdout;
    let own = commands(&help).into_iter().map(str::to_owned);
    let all = own.chain(commands(&studies).into_iter().map(|name| format!("study {name}")));
    let all: Vec<String> =
        all.filter(|name| !["help", "study", "study help"].contains(&name.as_str())).collect();
    assert!(all.len() > 20, "{all:?}");
    for name in all {
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let is_there = rows.into_iter().any(|row| {
            row.split('|').nth(1).unwrap().split(',').any(|part| part.trim() == format!("`{name}`"))
        });
        assert!(is_there, "docs/src/command-line.md has no row for `{name}`");
    }
}

#[test]
fn commands_in_the_documentation_exist() {
    let help = Desk::new().warpline(&["--help"]).fine().stdout;
    let known = commands(&help);
    let mut count = 0;
    for page in pages() {
        for line in blocks(&fs::read_to_string(&page).unwrap(), "").iter().flat_map(|block| block.lines()) {
            let Some(command) =
                line.trim().strip_prefix("warpline ").and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            assert!(known.contains(&command), "{}: {line}", page.display());
            count += 1;
        }
    }
    assert!(count > 5, "only {count} commands were found");
}
