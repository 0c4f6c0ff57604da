//! What the book says is what the program does. Each command in a `console` block is run, and prints what the page shows.
//!
//! The syntax of the blocks is trycmd's: `...` stands for any lines, `[..]` for anything within a line, `? 2` for an exit code. After a change that is
//! meant, `TRYCMD=overwrite` writes what the program prints now into the pages; read the text around it again. `trycmd=NAME` runs the pages with this name only.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &copied)?;
        } else {
            fs::copy(entry.path(), copied)?;
        }
    }
    Ok(())
}

#[test]
fn commands_in_the_book_print_what_it_shows() {
    // All pages share the directory; each names its own places for results.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let desk = tempfile::tempdir().unwrap();
    copy(&root.join("scenarios"), &desk.path().join("scenarios")).unwrap();
    std::env::set_current_dir(desk.path()).unwrap();
    let book = root.join("docs/src");
    trycmd::TestCases::new()
        .register_bin("warpline", Path::new(env!("CARGO_BIN_EXE_warpline")))
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .timeout(Duration::from_secs(600))
        .case(root.join("README.md"))
        .case(book.join("*.md"))
        .case(book.join("*/*.md"))
        .run();
}
