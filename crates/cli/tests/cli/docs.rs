//! The documentation: every scenario in it loads, every command that it names exists, every page is in its contents, and every link leads somewhere.
//!
//! `tests/book.rs` runs the commands whose output the pages show.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::support::Desk;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The book's chapters, in this directory and those below it.
fn chapters(directory: &Path) -> Vec<PathBuf> {
    let mut chapters = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            chapters.extend(self::chapters(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            chapters.push(path);
        }
    }
    chapters.sort();
    chapters
}

/// README, CONTRIBUTING and the book's chapters, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let own = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let all = own.into_iter().chain(chapters(&root().join("docs/src")));
    all.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The fenced blocks of a page in this language, with what mdBook includes in them.
fn blocks(page: &Path, text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))) if *name == *language => {
                open = Some(String::new());
            }
            Event::Text(part) => {
                if let Some(block) = &mut open {
                    *block += &part;
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    let directory = page.parent().unwrap();
    blocks.into_iter().map(|block| included(directory, &block)).collect()
}

/// A block with `{{#include FILE}}` replaced by the file.
fn included(directory: &Path, block: &str) -> String {
    let Some(name) = block.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) else {
        return block.to_owned();
    };
    let file = directory.join(name.trim());
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn scenarios_in_the_documentation_are_valid() {
    let desk = Desk::new();
    let mut count = 0;
    for (page, text) in pages() {
        for block in blocks(&page, &text, "toml") {
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
    for (page, text) in pages() {
        for block in blocks(&page, &text, "sh") {
            for line in block.lines() {
                let Some(command) =
                    line.trim().strip_prefix("warpline ").and_then(|rest| rest.split_whitespace().next())
                else {
                    continue;
                };
                assert!(known.contains(&command), "{}: {line}", page.display());
                count += 1;
            }
        }
    }
    assert!(count > 5, "only {count} commands were found");
}

/// Where the links and pictures of a page lead to.
fn links(text: &str) -> Vec<String> {
    let found = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    });
    found.collect()
}

/// The name by which mdBook links to a heading.
fn anchor(heading: &str) -> String {
    let letters =
        heading.chars().flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter });
    letters.filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
}

/// The anchors of a page: those of its headings.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|text| anchor(&text))),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    *heading += &part;
                }
            }
            _ => {}
        }
    }
    anchors
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    let mut count = 0;
    for (page, text) in pages() {
        for link in links(&text).iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}: no such file", page.display());
            if !place.is_empty() && target.extension().is_some_and(|ending| ending == "md") {
                let known = anchors(&fs::read_to_string(&target).unwrap());
                assert!(
                    known.iter().any(|name| name == place),
                    "{}: {link}: no such heading",
                    page.display()
                );
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn every_chapter_is_in_the_contents_once() {
    let book = root().join("docs/src");
    let contents = fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> = links(&contents).iter().map(|link| book.join(link)).collect();
    listed.sort();
    let all: Vec<PathBuf> =
        chapters(&book).into_iter().filter(|path| !path.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed, all);
}
