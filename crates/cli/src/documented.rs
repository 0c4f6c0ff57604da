//! The commands in the documentation have options that exist. Those in `console` blocks are run by `tests/book.rs`; the others need a network, root or
//! hours, and are read here as the command line is.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::{Cli, with_signs};

/// README and the pages of the book.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let book = root.join("docs/src");
    let mut directories = vec![book];
    let mut pages = vec![root.join("README.md")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The shell code of a page.
fn shell_code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))) if &*name == "sh" => {
                open = Some(String::new());
            }
            Event::Text(part) => {
                if let Some(block) = &mut open {
                    *block += &part;
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(open.take()),
            _ => {}
        }
    }
    found
}

/// The words of our command in a line of shell code; none if it has another one.
fn words(line: &str) -> Option<Vec<String>> {
    let from = line.strip_prefix("sudo ").unwrap_or(line);
    if !from.starts_with("warpline ") {
        return None;
    }
    let all = shlex::split(from).unwrap_or_else(|| panic!("no shell code: {line}"));
    let mut own = Vec::new();
    for word in all {
        if ["|", "&&", "||", ">", "&", ";"].contains(&word.as_str()) {
            break;
        }
        match word.strip_suffix(';') {
            Some(word) => {
                own.push(word.to_owned());
                break;
            }
            None => own.push(word),
        }
    }
    Some(own)
}

#[test]
fn commands_in_the_documentation_have_options_that_exist() {
    let command = with_signs(Cli::command());
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for block in shell_code(&fs::read_to_string(&page).unwrap()) {
            for line in block.replace("\\\n", " ").lines() {
                let Some(words) = words(line.trim()) else { continue };
                if let Err(error) = command.clone().try_get_matches_from(words) {
                    wrong.push(format!("{}: {line}\n{error}", page.display()));
                }
                count += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "only {count} commands were found");
}
