//! What the parser of TOML finds, in words that help the author of a scenario.

use std::ops::Range;

use super::diagnostics::Collector;
use super::document::{Place, SyntaxError};
use super::quantity::check_format;

/// Formats of the quantities that authors forget to quote.
const QUANTITIES: [&str; 5] = ["start", "rate", "size", "queue-limit", "probability"];

/// How the parser begins its message about a text without quotation marks. About most of those that have a point, it speaks of a wrong number.
const UNQUOTED: &str = "string values must be quoted";

/// Adds the parser's errors in `text` to `errors`.
pub(crate) fn explain(text: &str, found: Vec<SyntaxError>, errors: &mut Collector) {
    let mut told: Vec<Range<usize>> = Vec::new();
    for (message, span) in found {
        let span = span.unwrap_or(0..0);
        match unquoted(text, &span, message.starts_with(UNQUOTED)) {
            // One value may have several errors.
            Some(value) if told.contains(&value) => {}
            Some(value) => {
                let help = format!("write {:?}", &text[value.clone()]);
                errors.add(&Place::File(value.clone()), &[], format!("not TOML: {UNQUOTED}"), vec![help]);
                told.push(value);
            }
            None => errors.add(&Place::File(span), &[], format!("not TOML: {message}"), Vec::new()),
        }
    }
}

/// Where the value without quotation marks stands that an error at `span` is in. It has to be a quantity, unless it is `certain` that it is such a value.
fn unquoted(text: &str, span: &Range<usize>, certain: bool) -> Option<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "=,[]{}\"'#".contains(c);
    let before = text.get(..span.start)?;
    let start = before.char_indices().rfind(|&(_, c)| ends(c)).map_or(0, |(at, c)| at + c.len_utf8());
    let behind = text.get(span.end..)?;
    let end = span.end + behind.find(ends).unwrap_or(behind.len());
    let value = text.get(start..end)?;
    let is_value = before[..start].trim_end().ends_with(['=', '[', ',']);
    let is_quantity = || QUANTITIES.iter().any(|format| check_format(format, value).is_ok());
    (is_value && !value.is_empty() && (certain || is_quantity())).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::super::diagnostics::{Diagnostic, Sources};
    use super::super::document::Node;
    use super::*;

    fn explained(text: &str) -> Vec<Diagnostic> {
        let mut errors = Collector::default();
        explain(text, Node::from_toml(text).1, &mut errors);
        errors.finish(&Sources { name: "test.toml", text, sets: &[] }).errors
    }

    #[test]
    fn a_quantity_without_quotation_marks_is_told_what_to_write() {
        for value in [
            "10ms",
            "1.5ms",
            "1_000ms",
            "2e3s",
            "0.5s..1s",
            "10Mbit/s",
            "2.5Mbit/s",
            "1%",
            "0.1%",
            "1.5BDP",
            "1.5kB",
        ] {
            for (text, column) in
                [(format!("key = {value}\n"), 7), (format!("list = [{{ a = 1, b = {value} }}]"), 22)]
            {
                let errors = explained(&text);
                let [error] = errors.as_slice() else { panic!("{text}: {errors:?}") };
                assert_eq!(error.message, "not TOML: string values must be quoted", "{text}");
                assert_eq!(error.help, [format!("write \"{value}\"")], "{text}");
                let location = error.location.as_ref().unwrap();
                assert_eq!((location.column, location.width), (column, value.len()), "{text}");
            }
        }
        let word = explained("queue = codel\n");
        assert_eq!(word[0].help, ["write \"codel\""], "{word:?}");
    }

    #[test]
    fn another_mistake_keeps_the_words_of_the_parser() {
        for (text, part) in [
            ("a = True\n", "expected `true`"),
            ("a = \"10ms\n", "expected `\"`"),
            ("a = 1.2.3\n", "not TOML: invalid"),
            ("a = 0x\n", "the number cannot be read"),
            ("[[link]\n", "unclosed array table"),
        ] {
            let errors = explained(text);
            assert!(errors[0].message.contains(part), "{text}: {errors:?}");
            assert!(errors.iter().all(|error| error.help.is_empty()), "{text}: {errors:?}");
        }
    }
}
