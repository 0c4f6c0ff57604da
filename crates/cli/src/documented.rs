//! The commands in the documentation have options that exist. Those in `console` blocks are run by `tests/book.rs`; the others need a network, root or
//! hours, and are read here as the command line is. And the book has the exit codes of the help.

use std::fs;

use clap::CommandFactory;

use crate::failure::exit_codes_in_the_book;
use crate::{Cli, with_signs};

#[path = "../tests/cli/pages.rs"]
mod pages;

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
    for (page, text) in pages::pages() {
        for block in pages::blocks(&page, &text, "sh") {
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

#[test]
fn the_book_has_the_exit_codes_of_the_help() {
    let page = fs::read_to_string(pages::root().join("docs/src/command-line.md")).unwrap();
    let table = exit_codes_in_the_book();
    assert!(
        page.contains(&format!("\n\n{table}\n")),
        "docs/src/command-line.md must have this table:\n{table}"
    );
}
