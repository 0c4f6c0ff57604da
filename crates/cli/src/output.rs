//! Output to the terminal: results to stdout, messages to stderr, with colours where appropriate.

use std::borrow::Cow;
use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

/// Whether a stream gets colours: it is a terminal that supports them, and `NO_COLOR` is not set (<https://no-color.org>).
fn coloured(stream: &impl IsTerminal) -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !refused && !dumb
}

/// Whether stdout gets colours.
pub(crate) fn stdout_coloured() -> bool {
    coloured(&io::stdout())
}

/// `text` in `style` if stdout gets colours.
pub(crate) fn styled(style: Style, text: &str) -> String {
    if stdout_coloured() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// `text` with its headings (the lines that are not indented) in bold if stdout gets colours.
pub(crate) fn headed(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.trim_end() {
            heading if heading.is_empty() || heading.starts_with(' ') => line.to_owned(),
            heading => styled(HEADING, heading) + &line[heading.len()..],
        })
        .collect()
}

/// Columns of the terminal on stdout; 100 if it is not a terminal.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(100, |(width, _)| usize::from(width.0))
}

/// The number of lines of the terminal on stdout; none if it is not a terminal.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(_, height)| usize::from(height.0))
}

/// The style of headings.
pub(crate) const HEADING: Style = Style::new().bold();

/// Writes results to stdout. If the reader has closed the pipe (`warpline ... | head`), that is not an error.
///
/// # Errors
/// If stdout cannot be written for any other reason.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::output(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a result to stdout as one JSON document.
///
/// # Errors
/// As [`print()`], or if JSON cannot have the value.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| Failure::output(format!("cannot be written as JSON: {error}")))?;
    print(&format!("{value:#}\n"))
}

/// A path for JSON, whose texts are UTF-8: what is not stands there as U+FFFD.
pub(crate) fn json_path(path: Option<&Path>) -> Option<Cow<'_, str>> {
    path.map(Path::to_string_lossy)
}

/// Writes a message to stderr under a coloured `label`. Write errors are ignored: there is nowhere to report them.
fn message(label: &str, colour: AnsiColor, text: &str) {
    let mut stderr = io::stderr().lock();
    let style = colour.on_default().bold();
    let text = text.trim_end();
    let _ = if coloured(&stderr) {
        writeln!(stderr, "{style}{label}{style:#}: {text}")
    } else {
        writeln!(stderr, "{label}: {text}")
    };
}

/// Prints an error.
pub(crate) fn error(text: &str) {
    // Diagnostics of a scenario have an "error:" of their own for each mistake.
    if !text.starts_with("error: ") {
        return message("error", AnsiColor::Red, text);
    }
    for line in text.trim_end().lines() {
        match line.strip_prefix("error: ") {
            Some(rest) => message("error", AnsiColor::Red, rest),
            None => {
                let _ = writeln!(io::stderr().lock(), "{line}");
            }
        }
    }
}

/// Prints a note: something that the user should know although nothing failed.
pub(crate) fn note(text: &str) {
    message("note", AnsiColor::Cyan, text);
}

/// `count` and its noun, in the plural unless it is one.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A number with the prefix that keeps it short: "31.4 M".
pub(crate) fn short(value: f64) -> String {
    with_unit(value, "").trim_end().to_owned()
}

/// A number with the prefix that keeps it short, and its unit: "31.4 Mbit/s", "12.0 B".
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        // Whole bytes and packets, and zero.
        _ if prefix.is_empty() && scaled.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {prefix}{unit}")
}

/// A wall-clock time in seconds for people: "0.84 s", "3 min 12 s".
pub(crate) fn spoken_seconds(seconds: f64) -> String {
    if seconds < 120.0 {
        return if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") };
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let shown: Vec<String> =
            [0.0, 7.256, 12.34, 999.4, 31_416_000.0, 2.5e9].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "7.26", "12.3", "999", "31.4 M", "2.50 G"]);
    }

    #[test]
    fn units_have_a_space_before_them_with_and_without_a_prefix() {
        let shown = [12e6, 500.0, 0.0].map(|bps| with_unit(bps, "bit/s"));
        assert_eq!(shown, ["12.0 Mbit/s", "500 bit/s", "0 bit/s"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_not_utf_8_can_stand_in_json() {
        use std::os::unix::ffi::OsStrExt;
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"runs/\xff"));
        let shown =
            serde_json::json!([json_path(Some(odd)), json_path(Some(Path::new("runs/1"))), json_path(None)]);
        assert_eq!(shown, serde_json::json!(["runs/\u{fffd}", "runs/1", null]));
        assert!(print_json(&odd).unwrap_err().message().contains("JSON"));
    }

    #[test]
    fn long_times_are_given_in_minutes_and_hours() {
        let times: Vec<String> = [0.841, 45.26, 192.0, 7325.0].into_iter().map(spoken_seconds).collect();
        assert_eq!(times, ["0.84 s", "45.3 s", "3 min 12 s", "2 h 2 min"]);
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!((counted(1, "flow"), counted(0, "flow")), ("1 flow".into(), "0 flows".into()));
    }
}
