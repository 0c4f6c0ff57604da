//! Squid's access.log in the native format: `time elapsed client code/status bytes method URL ...`.
//!
//! The time is that of the end of a request, in seconds with milliseconds. The elapsed time is in milliseconds. A transfer
//! begins when its request began, relative to the earliest request in the log.

use warpline_core::TimeDelta;

/// A line that is not a valid entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}, column {column}: {problem}; expected Squid's native format, `time elapsed client code/status bytes method URL`"
)]
pub struct AccessLogError {
    /// Line number, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
}

/// A request in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it began, relative to the earliest request.
    pub start: TimeDelta,
    /// Size of the answer in bytes.
    pub bytes: u64,
    /// The client's name or address; only used to tell clients apart.
    pub client: String,
    /// What was requested; empty if the line has no URL.
    pub url: String,
}

/// Reads a log. Returns the start and the size in bytes of every transfer with a size, ordered by start.
///
/// # Errors
/// At the first line that is not an entry, a comment or empty.
pub fn parse(text: &str) -> Result<Vec<(TimeDelta, u64)>, AccessLogError> {
    Ok(requests(text)?.into_iter().map(|request| (request.start, request.bytes)).collect())
}

/// Reads a log. Returns every request whose answer has a size, ordered by start.
///
/// # Errors
/// At the first line that is not an entry, a comment or empty.
pub fn requests(text: &str) -> Result<Vec<Request>, AccessLogError> {
    let mut entries: Vec<(f64, u64, &str, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let mut fields = line.split_ascii_whitespace();
        let mut field = |name: &str| {
            let text = fields.next();
            let column = text.map_or(line.len(), |text| text.as_ptr() as usize - line.as_ptr() as usize) + 1;
            let fail = |problem: String| AccessLogError { line: index + 1, column, problem };
            text.map(|text| (text, column)).ok_or_else(|| fail(format!("the {name} is missing")))
        };
        let fail = |column, problem| AccessLogError { line: index + 1, column, problem };
        let (time, at) = field("time")?;
        let end: f64 = time
            .parse()
            .ok()
            .filter(|t: &f64| t.is_finite() && *t >= 0.0)
            .ok_or_else(|| fail(at, format!("`{time}` is not a time in seconds")))?;
        let (elapsed, at) = field("elapsed time")?;
        let elapsed: u32 = elapsed
            .parse()
            .map_err(|_| fail(at, format!("`{elapsed}` is not an elapsed time in milliseconds")))?;
        let (client, _) = field("client")?;
        field("status")?;
        let (bytes, at) = field("size")?;
        let bytes: u64 =
            bytes.parse().map_err(|_| fail(at, format!("`{bytes}` is not a number of bytes")))?;
        if bytes > 0 {
            let _method = fields.next();
            entries.push((end - f64::from(elapsed) / 1e3, bytes, client, fields.next().unwrap_or_default()));
        }
    }
    let first = entries.iter().map(|&(start, ..)| start).fold(f64::INFINITY, f64::min);
    let mut entries: Vec<_> = entries
        .into_iter()
        .map(|(start, bytes, client, url)| Request {
            // Whole microseconds: a double holds no more digits of a Unix time.
            start: TimeDelta::from_nanos((((start - first) * 1e6).round() as u64).saturating_mul(1_000)),
            bytes,
            client: client.to_owned(),
            url: url.to_owned(),
        })
        .collect();
    entries.sort_by_key(|request| request.start);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &str = "\
1066036250.603    310 192.168.0.1 TCP_MISS/200 4500 GET http://example.com/ - DIRECT/192.0.2.1 text/html
1066036250.500    400 192.168.0.2 TCP_HIT/200 1200 GET http://example.com/a.png - NONE/- image/png
1066036251.000      5 192.168.0.2 TCP_DENIED/403 0 GET http://example.com/b - NONE/- -
";

    #[test]
    fn starts_are_relative_to_the_earliest_request() {
        let entries = parse(LOG).unwrap();
        assert_eq!(entries, [(TimeDelta::ZERO, 1200), (TimeDelta::from_millis(193), 4500)]);
    }

    #[test]
    fn requests_have_their_client_and_url() {
        let requests = requests(LOG).unwrap();
        assert_eq!((&requests[1].client[..], &requests[1].url[..]), ("192.168.0.1", "http://example.com/"));
        assert_eq!(super::requests("7 0 c s 5").unwrap()[0].url, "");
    }

    #[test]
    fn errors_say_where() {
        let error = parse("1066036250.6 310 c TCP_MISS/200 many GET u").unwrap_err();
        assert_eq!((error.line, error.column), (1, 33));
        assert!(error.to_string().contains("`many` is not a number of bytes"));
        assert!(
            parse("\n1066036250.6 310").unwrap_err().to_string().starts_with("line 2, column 17: the client")
        );
    }

    #[test]
    fn huge_times_do_not_overflow() {
        let entries = parse("1e300 0 c s 5 GET u\n7 0 c s 5 GET u").unwrap();
        assert_eq!(entries[1].0, TimeDelta::MAX);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\PC\n]*") {
            let _ = parse(&text);
        }
    }
}
