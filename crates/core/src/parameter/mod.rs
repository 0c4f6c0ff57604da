//! Parameters of components, said once.
//!
//! A component is something that scenarios name: a congestion control, a queue, a loss model. Its parameters stand in one struct beside the
//! code that uses them, each with its name, type, unit, default, range and meaning; the derives of this module read them there
//! (`#[derive(Parameters)]`, `#[derive(Words)]`, `#[derive(Choice)]`; `warpline_derive` lists what can be said). From that come the short
//! form `nice:threshold=0.1`, the reading and writing of scenarios, their JSON Schema and reference, Python's classes, and every message about
//! a value that is not allowed.
//!
//! ```
//! use warpline_core::parameter::{Choice, Parameters};
//!
//! /// A leaky bucket.
//! #[derive(Clone, Debug, PartialEq, Parameters)]
//! #[component("bucket")]
//! struct Bucket {
//!     /// Part that leaks away in a second.
//!     #[parameter(default = 0.5, above = 0.0, max = 1.0)]
//!     leak: f64,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, Choice)]
//! #[choice("vessel")]
//! enum Vessel {
//!     Bucket(Bucket),
//! }
//!
//! let vessel: Vessel = "bucket:leak=0.25".parse()?;
//! assert_eq!(vessel, Vessel::Bucket(Bucket { leak: 0.25 }));
//! assert_eq!(vessel.to_string(), "bucket:leak=0.25");
//! let error = "bucket:leak=2".parse::<Vessel>().unwrap_err();
//! assert_eq!(error.to_string(), "`leak` of the vessel `bucket` is 2; allowed: above 0, at most 1");
//! # Ok::<(), warpline_core::parameter::ParameterError>(())
//! ```

mod choice;
mod file;
mod value;

use std::fmt;

pub use choice::{Choice, ParameterError, UnknownKind, read, write};
pub use file::{Contents, File, FileOf, Held};
pub use value::{Given, Kind, Value, Vocabulary, Word, Words};
pub use warpline_derive::{Choice, Parameters, Words};

/// A struct of parameters; derived.
pub trait Parameters {
    /// All parameters, in the order of the struct.
    fn fields(&mut self) -> Vec<Field<'_>>;
    /// Sets all others to what the preset stands for, where there is one.
    fn follow_preset(&mut self) {}
}

/// The parameters of something that scenarios name; derived.
pub trait Component: Parameters + Default {
    /// Its name in scenarios.
    const KIND: &'static str;
    /// What it is.
    const ABOUT: &'static str;
}

/// A parameter and its value.
pub struct Field<'a> {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What a number counts; empty where that is clear.
    pub unit: &'static str,
    /// A former name, which is still read.
    pub was: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be written as a percentage.
    pub share: bool,
    /// Whether it stands for the defaults of all others.
    pub preset: bool,
    /// Says what is allowed.
    pub range: fn() -> Range,
    /// The value.
    pub value: &'a mut dyn Value,
}

/// What a value may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: Option<End>,
    /// The upper end.
    pub high: Option<End>,
    /// The parameter that it may not be below.
    pub not_below: Option<&'static str>,
    /// The parameter that it may not be above.
    pub not_above: Option<&'static str>,
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Where it lies, in the base unit.
    pub size: f64,
    /// The same as people write it.
    pub given: Given,
    /// Whether the end itself is not allowed.
    pub open: bool,
}

impl End {
    /// An end at `value`.
    pub fn new(value: &impl Value, open: bool) -> Self {
        let given = value.given().unwrap_or(Given::Text(String::new()));
        End { size: value.size().unwrap_or(f64::NAN), given, open }
    }
}

impl Range {
    /// Whether `size` is allowed; other parameters aside.
    pub fn contains(&self, size: f64) -> bool {
        let above = |end: &End| size > end.size || size == end.size && !end.open;
        let below = |end: &End| size < end.size || size == end.size && !end.open;
        size.is_finite() && self.low.as_ref().is_none_or(above) && self.high.as_ref().is_none_or(below)
    }

    /// Whether everything is allowed.
    pub fn is_all(&self) -> bool {
        *self == Range::default()
    }

    /// "above 0 segments", "above 0 and below 1", "0 or more, not below `alpha`", "a finite number".
    pub fn text(&self, unit: &str) -> String {
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let number = match (&self.low, &self.high) {
            (Some(low), Some(high)) => match (low.open, high.open) {
                (false, false) => format!("{} to {}{unit}", low.given, high.given),
                (false, true) => format!("{} or more and below {}{unit}", low.given, high.given),
                (true, false) => format!("above {}, at most {}{unit}", low.given, high.given),
                (true, true) => format!("above {} and below {}{unit}", low.given, high.given),
            },
            (Some(low), None) if low.open => format!("above {}{unit}", low.given),
            (Some(low), None) => format!("{} or more{unit}", low.given),
            (None, Some(high)) if high.open => format!("below {}{unit}", high.given),
            (None, Some(high)) => format!("at most {}{unit}", high.given),
            (None, None) => String::new(),
        };
        let below = self.not_below.map(|other| format!("not below `{other}`"));
        let above = self.not_above.map(|other| format!("not above `{other}`"));
        let parts = [Some(number).filter(|text| !text.is_empty()), below, above];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "a finite number".to_owned() } else { parts.join(", ") }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(""))
    }
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{parameter}` is {value}; allowed: {allowed}")]
pub struct OutOfRange {
    /// The parameter.
    pub parameter: &'static str,
    /// What it is.
    pub value: Given,
    /// What it may be, with its unit.
    pub allowed: String,
}

/// A parameter without its value: what schemas and references say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What a number counts; empty where that is clear.
    pub unit: &'static str,
    /// A former name, which is still read.
    pub was: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be written as a percentage.
    pub share: bool,
    /// What its values are.
    pub kind: Kind,
    /// What is allowed.
    pub range: Range,
    /// What it is if nothing else is said; none where that depends on other things.
    pub default: Option<Given>,
    /// What it is with other presets: the preset's word and the value.
    pub with_preset: Vec<(&'static str, Option<Given>)>,
}

impl dyn Parameters + '_ {
    /// What there is to say of each parameter; `self` has the defaults.
    pub fn describe(&mut self) -> Vec<Description> {
        let describe = |field: Field<'_>| Description {
            name: field.name,
            about: field.about,
            unit: field.unit,
            was: field.was,
            required: field.required,
            share: field.share,
            kind: field.value.kind(),
            default: field.value.given(),
            range: (field.range)(),
            with_preset: Vec::new(),
        };
        let preset = self.fields().iter().position(|field| field.preset);
        let mut descriptions: Vec<Description> = self.fields().into_iter().map(describe).collect();
        if let Some(preset) = preset
            && let Kind::Words(vocabulary) = descriptions[preset].kind
        {
            for word in vocabulary.words {
                self.follow(&Given::Text(word.name.to_owned()));
                for (number, field) in self.fields().iter().enumerate() {
                    let value = field.value.given();
                    if number != preset && value != descriptions[number].default {
                        descriptions[number].with_preset.push((word.name, value));
                    }
                }
            }
        }
        descriptions
    }

    /// Takes a preset, if there is one of this word.
    pub(crate) fn follow(&mut self, word: &Given) -> bool {
        let preset = self.fields().into_iter().find(|field| field.preset);
        let taken = preset.is_some_and(|field| field.value.take(word));
        if taken {
            self.follow_preset();
        }
        taken
    }

    /// Everything that is out of its range.
    pub fn faults(&mut self) -> Vec<OutOfRange> {
        let fields = self.fields();
        let size_of = |name: Option<&str>| fields.iter().find(|field| Some(field.name) == name)?.value.size();
        let fault = |field: &Field<'_>| {
            let (size, range) = (field.value.size()?, (field.range)());
            let is_out = !range.contains(size)
                || size_of(range.not_below).is_some_and(|other| size < other)
                || size_of(range.not_above).is_some_and(|other| size > other);
            let value = is_out.then(|| field.value.given())??;
            Some(OutOfRange { parameter: field.name, value, allowed: range.text(field.unit) })
        };
        fields.iter().filter_map(fault).collect()
    }
}
