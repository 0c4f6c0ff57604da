//! The documentation: every scenario in it loads, every page is in its contents, every link leads somewhere, and each lesson is whole.
//!
//! `tests/book.rs` runs the commands whose output the pages show; `src/documented.rs` reads the others.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::pages::{blocks, chapters, pages, root};
use crate::support::Desk;

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

#[test]
fn each_lesson_has_a_scenario_three_questions_and_a_place_in_the_list() {
    let book = root().join("docs/src");
    let list = links(&fs::read_to_string(book.join("lessons.md")).unwrap());
    let mut lessons = chapters(&book.join("lessons"));
    lessons.retain(|page| {
        let text = fs::read_to_string(page).unwrap();
        let name = page.file_stem().unwrap().to_str().unwrap();
        assert!(
            text.contains(&format!("scenarios/lessons/{name}.toml}}}}")),
            "{name}: its scenario is not shown"
        );
        assert_eq!(text.matches("<summary>Answer</summary>").count(), 3, "{name}: answers");
        assert!(text.contains("```console"), "{name}: nothing is run");
        !list.contains(&format!("lessons/{name}.md"))
    });
    assert!(lessons.is_empty(), "docs/src/lessons.md does not list {lessons:?}");
}
