//! A class of HTB as a scenario says it: a line with its name and, as in `tc class add ... htb`, words and their values.

use std::str::FromStr;

use warpline_core::{Bytes, Dscp, Rate};

use crate::qdisc::QdiscConfig;

/// The priorities that there are, the first one highest.
const PRIORITIES: u8 = 8;
/// Bytes of a bucket that is not given, as `tc` has it on a machine with precise timers.
const BUCKET: Bytes = Bytes(1600);
/// A quantum that is not given is what the rate carries in a tenth of a second, within these bounds (`r2q` of 10).
const QUANTA: (u64, u64) = (1_000, 200_000);

/// A class: "voice parent all rate 2Mbit/s ceil 10Mbit/s prio 0 dscp EF".
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassLine {
    pub(super) name: String,
    /// The name of the class that lends to it.
    pub(super) parent: Option<String>,
    /// What it may send whatever others do.
    pub(super) rate: Rate,
    /// What it may send with what it borrows.
    pub(super) ceil: Rate,
    pub(super) burst: Bytes,
    pub(super) cburst: Bytes,
    pub(super) prio: u8,
    pub(super) quantum: u32,
    /// Whose packets it takes: by the class of flows, by code points.
    pub(super) classes: Vec<u8>,
    pub(super) dscps: Vec<Dscp>,
    /// Whether it takes those that no class takes by either.
    pub(super) default: bool,
    /// The queue in which its packets wait.
    pub(super) leaf: QdiscConfig,
}

/// The words of a line.
const WORDS: &str = "parent, rate, ceil, burst, cburst, prio, quantum, class, dscp, default, leaf";

fn read<T: FromStr>(word: &str, value: &str, example: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is no {word}; write for example `{word} {example}`"))
}

fn list<T: FromStr>(word: &str, value: &str, example: &str) -> Result<Vec<T>, String> {
    value.split(',').map(|one| read(word, one, example)).collect()
}

impl FromStr for ClassLine {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("a class needs a name")?;
        let (mut parent, mut rate, mut ceil) = (None, None, None);
        let (mut burst, mut cburst, mut prio, mut quantum) = (BUCKET, BUCKET, 0, None);
        let (mut classes, mut dscps, mut leaf) = (Vec::new(), Vec::new(), QdiscConfig::default());
        let mut default = false;
        while let Some(word) = words.next() {
            if word == "default" {
                default = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("`{word}` of class {name} has no value"))?;
            match word {
                "parent" => parent = Some(value.to_owned()),
                "rate" => rate = Some(read(word, value, "2Mbit/s")?),
                "ceil" => ceil = Some(read(word, value, "10Mbit/s")?),
                "burst" => burst = read(word, value, "1600B")?,
                "cburst" => cburst = read(word, value, "1600B")?,
                "prio" => prio = read(word, value, "0")?,
                "quantum" => quantum = Some(read::<Bytes>(word, value, "1514B")?),
                "class" => classes.extend(list::<u8>(word, value, "1")?),
                "dscp" => dscps.extend(list::<Dscp>(word, value, "EF,CS6")?),
                "leaf" => {
                    leaf = value.parse().map_err(|error| format!("the leaf of class {name}: {error}"))?;
                }
                _ => return Err(format!("`{word}` is no word of a class; there are {WORDS}")),
            }
        }
        let rate: Rate = rate.ok_or_else(|| format!("class {name} needs a rate"))?;
        let ceil = ceil.unwrap_or(rate);
        if rate.as_bps() == 0 || ceil < rate {
            return Err(format!("class {name} needs a rate above 0, and a ceil that is not below it"));
        }
        if prio >= PRIORITIES {
            return Err(format!("the prio of class {name} is {prio}; the lowest is {}", PRIORITIES - 1));
        }
        let usual = (rate.as_bps() / 80).clamp(QUANTA.0, QUANTA.1);
        let quantum = quantum.map_or(usual, |Bytes(bytes)| bytes).clamp(1, u64::from(u32::MAX)) as u32;
        let name = name.to_owned();
        Ok(ClassLine {
            name,
            parent,
            rate,
            ceil,
            burst,
            cburst,
            prio,
            quantum,
            classes,
            dscps,
            default,
            leaf,
        })
    }
}

impl ClassLine {
    /// All classes of these lines.
    ///
    /// # Errors
    /// With the line that is wrong.
    pub(super) fn all(lines: &[String]) -> Result<Vec<ClassLine>, (String, String)> {
        let mut classes: Vec<ClassLine> = Vec::with_capacity(lines.len());
        for line in lines {
            let class: ClassLine = line.parse().map_err(|error| (line.clone(), error))?;
            let wrong = |error: String| Err((line.clone(), error));
            if classes.iter().any(|other| other.name == class.name) {
                return wrong(format!("there is a class {} already", class.name));
            }
            if let Some(parent) = &class.parent
                && !classes.iter().any(|other| other.name == *parent)
            {
                let later = lines.iter().any(|line| line.split_whitespace().next() == Some(parent));
                return wrong(match later {
                    true => format!("the parent {parent} must stand before {}", class.name),
                    false => format!("there is no class {parent}, which {} names as its parent", class.name),
                });
            }
            classes.push(class);
        }
        let lends =
            |class: &ClassLine| classes.iter().any(|other| other.parent.as_ref() == Some(&class.name));
        let mut has_default = false;
        for (class, line) in classes.iter().zip(lines) {
            let name = &class.name;
            let wrong = match (lends(class), class.takes_some()) {
                (true, true) => format!("class {name} lends to others and takes no packets"),
                (false, false) => format!(
                    "class {name} takes no packets: give it a `class` or a `dscp`, or the word `default` for what no other class takes"
                ),
                _ if class.default && has_default => {
                    format!("class {name} has the word `default`, as one before it has")
                }
                _ => {
                    has_default |= class.default;
                    continue;
                }
            };
            return Err((line.clone(), wrong));
        }
        Ok(classes)
    }

    /// Whether it says whose packets it takes.
    fn takes_some(&self) -> bool {
        self.default || !self.classes.is_empty() || !self.dscps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_a_class() {
        let class: ClassLine =
            "voice parent all rate 2Mbit/s ceil 10Mbit/s prio 1 dscp EF,48 class 3 leaf codel:limit=9p"
                .parse()
                .unwrap();
        assert_eq!((class.name.as_str(), class.parent.as_deref()), ("voice", Some("all")));
        assert_eq!((class.rate.as_bps(), class.ceil.as_bps()), (2_000_000, 10_000_000));
        assert_eq!((class.prio, class.quantum, class.burst), (1, 25_000, Bytes(1600)));
        assert_eq!((class.classes, class.dscps.len()), (vec![3], 2));
        assert_eq!(class.leaf.to_string(), "codel:limit=9p");
        let plain: ClassLine = "bulk rate 64kbit/s quantum 300B".parse().unwrap();
        assert_eq!((plain.ceil, plain.quantum, plain.takes_some()), (plain.rate, 300, false));
        let rest: ClassLine = "rest default rate 64kbit/s".parse().unwrap();
        assert!(rest.default && rest.takes_some());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            ClassLine::all(&lines).unwrap_err().1
        };
        for (lines, expected) in [
            (&[""][..], "a class needs a name"),
            (&["a"], "class a needs a rate"),
            (&["a rate"], "`rate` of class a has no value"),
            (&["a rate fast"], "`fast` is no rate; write for example `rate 2Mbit/s`"),
            (&["a rate 2Mbit/s ceil 1Mbit/s"], "a ceil that is not below it"),
            (&["a rate 1Mbit/s prio 8"], "the lowest is 7"),
            (&["a rate 1Mbit/s mark 3"], "`mark` is no word of a class; there are parent, rate"),
            (&["a rate 1Mbit/s dscp voice"], "`voice` is no dscp"),
            (&["a rate 1Mbit/s leaf tail"], "the leaf of class a: `tail` is not a queue"),
            (&["a rate 1Mbit/s leaf codel:limit=0p"], "`limit` of the queue `codel` is 0p"),
            (&["a rate 1Mbit/s", "a rate 1Mbit/s"], "there is a class a already"),
            (&["a parent b rate 1Mbit/s", "b rate 1Mbit/s"], "the parent b must stand before a"),
            (
                &["a rate 1Mbit/s", "b parent zz rate 1Mbit/s"],
                "there is no class zz, which b names as its parent",
            ),
            (&["a rate 1Mbit/s class 1", "b parent a rate 1Mbit/s class 2"], "class a lends to others"),
            (&["a rate 1Mbit/s default", "b parent a rate 1Mbit/s class 2"], "class a lends to others"),
            (&["a rate 1Mbit/s class 1", "b rate 1Mbit/s"], "class b takes no packets: give it a `class`"),
            (&["a rate 1Mbit/s default", "b rate 1Mbit/s default"], "class b has the word `default`, as one"),
        ] {
            let error = error(lines);
            assert!(error.contains(expected), "{error}");
        }
    }
}
