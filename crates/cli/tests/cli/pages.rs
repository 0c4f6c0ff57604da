//! The pages of the documentation, and the code in them, for the tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The book's chapters, in this directory and those below it.
pub(crate) fn chapters(directory: &Path) -> Vec<PathBuf> {
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
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let own = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let all = own.into_iter().chain(chapters(&root().join("docs/src")));
    all.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The fenced blocks of a page in this language, with what mdBook includes in them.
pub(crate) fn blocks(page: &Path, text: &str, language: &str) -> Vec<String> {
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
