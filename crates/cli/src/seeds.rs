//! Lists of seeds on the command line: `1..20`, `1,2,5`.

use std::str::FromStr;

/// A list of seeds on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// More is probably a typing mistake.
        const MOST: u64 = 100_000;
        let number = |text: &str| {
            text.trim().parse::<u64>().map_err(|_| format!("\"{text}\" is not a seed; write 1..20 or 1,2,5"))
        };
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
            ("0..18446744073709551615", "more than 100000 seeds"),
        ] {
            let message = seeds(wrong).unwrap_err();
            assert!(message.contains(reason), "{wrong}: {message}");
        }
    }
}
