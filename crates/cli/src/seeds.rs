//! Seeds on the command line: one, and lists of them (`1..20`, `1,2,5`).

use std::str::FromStr;

use warpline_scenario::LARGEST_SEED;

/// Reads a seed.
///
/// # Errors
/// If it is none, or above the largest.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse::<u64>().ok().filter(|seed| *seed <= LARGEST_SEED);
    seed.ok_or_else(|| format!("\"{text}\" is not a seed; write a whole number from 0 to {LARGEST_SEED}"))
}

/// So many seeds, from `first` on.
///
/// # Errors
/// If they go beyond the largest.
pub(crate) fn following(first: u64, count: u32) -> Result<Vec<u64>, String> {
    let end = first.saturating_add(count.into());
    if end > LARGEST_SEED + 1 {
        return Err(format!(
            "there are not {count} seeds from {first} on: the largest is {LARGEST_SEED}; begin with a smaller one"
        ));
    }
    Ok((first..end).collect())
}

/// A list of seeds on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// More is probably a typing mistake.
        const MOST: u64 = 100_000;
        let number =
            |text: &str| seed(text.trim()).map_err(|wrong| format!("{wrong}; several are 1..20 or 1,2,5"));
        let mut seeds: Vec<u64> = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => seeds.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                    if last < first {
                        return Err(format!("{part} is empty; write the smaller seed first"));
                    }
                    if last - first >= MOST {
                        return Err(format!("{part} are more than {MOST} seeds"));
                    }
                    seeds.extend(first..=last);
                }
            }
        }
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("seed {} is listed twice; it would give the same run twice", pair[0])),
            None => Ok(Seeds(seeds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_ranges_with_both_ends_or_lists() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("1..4").unwrap(), [1, 2, 3, 4]);
        assert_eq!(seeds("1..=3").unwrap(), [1, 2, 3]);
        assert_eq!(seeds("7, 3,10..11").unwrap(), [7, 3, 10, 11]);
        for (wrong, reason) in [
            ("4..1", "smaller seed first"),
            ("1..x", "not a seed"),
            ("", "not a seed"),
            ("1,2,1", "listed twice"),
            ("0..9223372036854775807", "more than 100000 seeds"),
            ("9223372036854775808", "from 0 to 9223372036854775807"),
            ("1,18446744073709551615", "from 0 to 9223372036854775807"),
        ] {
            let message = seeds(wrong).unwrap_err();
            assert!(message.contains(reason), "{wrong}: {message}");
        }
    }

    #[test]
    fn seeds_end_where_those_of_scenarios_do() {
        assert_eq!(seed("9223372036854775807"), Ok(LARGEST_SEED));
        assert!(seed("9223372036854775808").unwrap_err().contains("9223372036854775807"));
        assert!(seed("-1").is_err() && seed("").is_err());
        assert_eq!(following(7, 3), Ok(vec![7, 8, 9]));
        assert_eq!(following(LARGEST_SEED, 1), Ok(vec![LARGEST_SEED]));
        assert!(following(LARGEST_SEED, 2).unwrap_err().contains("begin with a smaller one"));
    }
}
