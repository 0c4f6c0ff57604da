//! Values of parameters: what a scenario, a short form and a schema exchange with the code.

use std::fmt;

use super::File;
use crate::{Bytes, Rate, TimeDelta};

/// A value as people write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// `true` or `false`; yes or no in a short form.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// Any number.
    Number(f64),
    /// A word, or a quantity with its unit.
    Text(String),
    /// Whole numbers.
    List(Vec<u64>),
    /// Lines of text.
    Lines(Vec<String>),
}

impl Given {
    /// As a text for people has it: a number that is not a short decimal is a fraction.
    ///
    /// ```
    /// # use warpline_core::parameter::Given;
    /// assert_eq!(Given::Number(1.0 / 48.0).plain(), "1/48");
    /// assert_eq!(Given::Number(0.125).plain(), "0.125");
    /// ```
    pub fn plain(&self) -> String {
        match self {
            Given::Flag(flag) => flag.to_string(),
            Given::Number(number) if number.to_string().len() > 8 => {
                let over =
                    (2..=1024).map(f64::from).find(|under| (number * under).round() / under == *number);
                over.map_or(number.to_string(), |under| format!("{}/{under}", (number * under).round()))
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Given {
    /// As a short form has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Given::Whole(number) => number.fmt(f),
            Given::Number(number) => number.fmt(f),
            Given::Text(text) => f.write_str(text),
            Given::List(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                f.write_str(&numbers.join("+"))
            }
            Given::Lines(lines) => f.write_str(&lines.join(";")),
        }
    }
}

/// One of the words that a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// The words that a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// The type's name, for schemas.
    pub name: &'static str,
    /// What the words say.
    pub about: &'static str,
    /// The words.
    pub words: &'static [Word],
}

/// What a parameter's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number up to this one.
    Whole(u64),
    /// A finite number.
    Number,
    /// A span of time.
    Time,
    /// A number of bytes.
    Size,
    /// A rate.
    Rate,
    /// How much a queue holds.
    Limit,
    /// A TCP window.
    Window,
    /// One of these words.
    Words(Vocabulary),
    /// A list of whole numbers.
    List,
    /// The path of a file.
    File,
    /// A list of lines of text.
    Lines,
}

impl Kind {
    /// The value that the text of a short form stands for; none if it is no such value.
    pub fn read(self, text: &str) -> Option<Given> {
        match self {
            Kind::Flag => match text {
                "yes" | "true" => Some(Given::Flag(true)),
                "no" | "false" => Some(Given::Flag(false)),
                _ => None,
            },
            Kind::Whole(_) => text.parse().ok().map(Given::Whole),
            Kind::Number => text.parse().ok().map(Given::Number),
            Kind::Lines => Some(Given::Lines(text.split(';').map(|line| line.trim().to_owned()).collect())),
            Kind::List => text.split('+').map(|n| n.parse().ok()).collect::<Option<_>>().map(Given::List),
            Kind::Time
            | Kind::Size
            | Kind::Rate
            | Kind::Limit
            | Kind::Window
            | Kind::Words(_)
            | Kind::File => Some(Given::Text(text.to_owned())),
        }
    }
}

impl fmt::Display for Kind {
    /// What to write: "a whole number", "a time, such as 50ms", "linux or paper".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Flag => "yes or no",
            Kind::Whole(_) => "a whole number",
            Kind::Number => "a number",
            Kind::Time => "a time, such as 50ms",
            Kind::Size => "a size, such as 1500B",
            Kind::Rate => "a rate, such as 10Mbit/s",
            Kind::Limit => "a queue limit, such as 100p, 150kB, 1BDP or 50ms",
            Kind::Window => "a window, such as 10p or 64kB",
            Kind::List => "whole numbers, such as 17+18",
            Kind::File => "the path of a file",
            Kind::Lines => "a list of texts",
            Kind::Words(vocabulary) => {
                let names: Vec<&str> = vocabulary.words.iter().map(|word| word.name).collect();
                return match names.split_last() {
                    Some((last, [])) => f.write_str(last),
                    Some((last, rest)) => write!(f, "{} or {last}", rest.join(", ")),
                    None => Ok(()),
                };
            }
        })
    }
}

/// The type of a parameter.
pub trait Value {
    /// What its values are.
    fn kind(&self) -> Kind;
    /// The value; none where it is not set, which only an option can be.
    fn given(&self) -> Option<Given>;
    /// Takes another value; false, and nothing is changed, where it is none of this type.
    fn take(&mut self, given: &Given) -> bool;
    /// The size of a number or quantity, for its range.
    fn size(&self) -> Option<f64> {
        None
    }
    /// The file that it names, if it is the path of one.
    fn file(&mut self) -> Option<&mut dyn File> {
        None
    }
}

impl Value for bool {
    fn kind(&self) -> Kind {
        Kind::Flag
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Flag(*self))
    }
    fn take(&mut self, given: &Given) -> bool {
        let Given::Flag(flag) = given else { return false };
        *self = *flag;
        true
    }
}

impl Value for f64 {
    fn kind(&self) -> Kind {
        Kind::Number
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Number(*self))
    }
    fn take(&mut self, given: &Given) -> bool {
        *self = match given {
            Given::Number(number) => *number,
            Given::Whole(number) => *number as f64,
            _ => return false,
        };
        true
    }
    fn size(&self) -> Option<f64> {
        Some(*self)
    }
}

macro_rules! whole {
    ($($type:ty),+) => { $(
        impl Value for $type {
            fn kind(&self) -> Kind {
                Kind::Whole(u64::from(<$type>::MAX))
            }
            fn given(&self) -> Option<Given> {
                Some(Given::Whole(u64::from(*self)))
            }
            fn take(&mut self, given: &Given) -> bool {
                let Given::Whole(number) = given else { return false };
                <$type>::try_from(*number).map(|number| *self = number).is_ok()
            }
            fn size(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )+ };
}

whole!(u8, u16, u32, u64);

macro_rules! quantity {
    ($($type:ty, $kind:ident, $size:expr;)+) => { $(
        impl Value for $type {
            fn kind(&self) -> Kind {
                Kind::$kind
            }
            fn given(&self) -> Option<Given> {
                Some(Given::Text(self.to_string()))
            }
            fn take(&mut self, given: &Given) -> bool {
                let Given::Text(text) = given else { return false };
                text.parse().map(|quantity| *self = quantity).is_ok()
            }
            fn size(&self) -> Option<f64> {
                let size: fn($type) -> u64 = $size;
                Some(size(*self) as f64)
            }
        }
    )+ };
}

quantity! {
    Bytes, Size, |Bytes(bytes)| bytes;
    Rate, Rate, |rate| rate.as_bps();
}

impl Value for TimeDelta {
    fn kind(&self) -> Kind {
        Kind::Time
    }
    fn given(&self) -> Option<Given> {
        let text = if *self == TimeDelta::MAX { "unlimited".to_owned() } else { self.to_string() };
        Some(Given::Text(text))
    }
    fn take(&mut self, given: &Given) -> bool {
        match given {
            Given::Text(text) if text == "unlimited" => *self = TimeDelta::MAX,
            Given::Text(text) => return text.parse().map(|span| *self = span).is_ok(),
            _ => return false,
        }
        true
    }
    fn size(&self) -> Option<f64> {
        Some(self.as_nanos() as f64)
    }
}

impl Value for Vec<u64> {
    fn kind(&self) -> Kind {
        Kind::List
    }
    fn given(&self) -> Option<Given> {
        Some(Given::List(self.clone()))
    }
    fn take(&mut self, given: &Given) -> bool {
        let Given::List(numbers) = given else { return false };
        self.clone_from(numbers);
        true
    }
    /// Of the least number.
    fn size(&self) -> Option<f64> {
        self.iter().min().map(|least| *least as f64)
    }
}

impl Value for Vec<String> {
    fn kind(&self) -> Kind {
        Kind::Lines
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Lines(self.clone()))
    }
    fn take(&mut self, given: &Given) -> bool {
        match given {
            Given::Lines(lines) => self.clone_from(lines),
            // An empty list is one of either kind.
            Given::List(numbers) if numbers.is_empty() => self.clear(),
            _ => return false,
        }
        true
    }
}

/// What need not be set.
impl<T: Value + Default> Value for Option<T> {
    fn kind(&self) -> Kind {
        T::default().kind()
    }
    fn given(&self) -> Option<Given> {
        self.as_ref()?.given()
    }
    fn take(&mut self, given: &Given) -> bool {
        let mut value = T::default();
        let taken = value.take(given);
        if taken {
            *self = Some(value);
        }
        taken
    }
    fn size(&self) -> Option<f64> {
        self.as_ref()?.size()
    }
}

/// An enum whose variants are words; derived.
pub trait Words: Copy + PartialEq + 'static {
    /// The words, in the order of the variants.
    const VOCABULARY: Vocabulary;
    /// The variants.
    const ALL: &'static [Self];

    /// Its word.
    fn word(self) -> &'static str {
        let at = Self::ALL.iter().position(|other| *other == self);
        at.map_or("", |at| Self::VOCABULARY.words[at].name)
    }
}

impl<T: Words> Value for T {
    fn kind(&self) -> Kind {
        Kind::Words(T::VOCABULARY)
    }
    fn given(&self) -> Option<Given> {
        Some(Given::Text(self.word().to_owned()))
    }
    fn take(&mut self, given: &Given) -> bool {
        let Given::Text(text) = given else { return false };
        let found = T::VOCABULARY.words.iter().position(|word| word.name == text);
        found.map(|at| *self = T::ALL[at]).is_some()
    }
}
