//! The date of a document: as it was given, or that of `SOURCE_DATE_EPOCH`, or today's (UTC).

use std::time::{Duration, SystemTime};

/// Environment variable with the seconds since 1970 that stand for now, so that documents can be made again
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const VARIABLE: &str = "SOURCE_DATE_EPOCH";
const DAY: u64 = 86_400;
/// When dates get a fifth digit, in seconds since 1970.
const YEAR_10000: u64 = 253_402_300_800;

/// Reads a date: "2026-11-26".
pub(crate) fn read(text: &str) -> Result<String, String> {
    let wrong = || format!("\"{text}\" is no date: write it as 2026-11-26");
    let digits = |part: &str, count: usize| {
        (part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u64>().ok())?
    };
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let parts = digits(year, 4).zip(digits(month, 2)).zip(digits(day, 2));
    let ((year, month), day) = parts.ok_or_else(wrong)?;
    match (1..=12).contains(&month) && (1..=length(year, month)).contains(&day) {
        true => Ok(text.to_owned()),
        false => Err(wrong()),
    }
}

/// The date of `SOURCE_DATE_EPOCH`, or today's.
///
/// # Errors
/// If the variable is no number.
#[expect(
    clippy::disallowed_methods,
    reason = "the date of a document is the wall clock's, unless it is given"
)]
pub(crate) fn today() -> Result<String, String> {
    let seconds = match std::env::var(VARIABLE) {
        Ok(text) => text
            .parse()
            .ok()
            .filter(|seconds| *seconds < YEAR_10000)
            .ok_or_else(|| format!("{VARIABLE} is \"{text}\", and no number of seconds since 1970"))?,
        Err(_) => {
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
        }
    };
    Ok(of(seconds))
}

/// Days of a month in the Gregorian calendar.
fn length(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The date, so many seconds after the beginning of 1970 (UTC).
fn of(seconds: u64) -> String {
    let mut days = seconds / DAY;
    let (mut year, mut month) = (1970, 1);
    while days >= length(year, month) {
        days -= length(year, month);
        (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (DAY - 1, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_795_651_200, "2026-11-26"),
        ] {
            assert_eq!(of(seconds), date);
            assert_eq!(read(date).as_deref(), Ok(date));
        }
        for wrong in
            ["2026-2-1", "2026-02-29", "2026-13-01", "26-11-2026", "today", "2026-11-26-1", "+026-01-01"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
