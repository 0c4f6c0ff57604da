//! One component of several, by its name: reading and writing it with its parameters.

use std::fmt;

use super::{Description, File, Given, OutOfRange, Parameters};

/// An enum of components, each variant holding the parameters of one; derived.
pub trait Choice: Clone + 'static {
    /// What they are: "congestion control".
    const WHAT: &'static str;
    /// Their names, in the order of the variants.
    const KINDS: &'static [&'static str];
    /// Each of them with its defaults, in the same order.
    fn all() -> Vec<Self>;
    /// This one's name.
    fn kind(&self) -> &'static str;
    /// What this one is.
    fn about(&self) -> &'static str;
    /// This one's parameters.
    fn parameters(&mut self) -> &mut dyn Parameters;

    /// The component called `kind` with its defaults.
    ///
    /// # Errors
    /// If there is none.
    fn of_kind(kind: &str) -> Result<Self, UnknownKind> {
        let unknown = || UnknownKind { what: Self::WHAT, name: kind.to_owned(), known: Self::KINDS };
        Self::all().into_iter().find(|component| component.kind() == kind).ok_or_else(unknown)
    }

    /// What there is to say of each parameter.
    fn describe(&self) -> Vec<Description> {
        let plain = Self::of_kind(self.kind());
        plain.map_or_else(|_| Vec::new(), |mut plain| plain.parameters().describe())
    }

    /// The component with parameters as given, the others as they were. Ranges are not looked at: see [`faults`](Self::faults).
    ///
    /// # Errors
    /// A parameter that it does not have, a value that is of another type, or a required parameter that is missing.
    fn with(&self, given: &[(&str, Given)]) -> Result<Self, ParameterError> {
        let mut component = self.clone();
        let (what, kind) = (Self::WHAT, self.kind());
        let preset =
            component.parameters().fields().iter().find(|field| field.preset).map(|field| field.name);
        if let Some((_, word)) = given.iter().find(|(name, _)| Some(*name) == preset) {
            component.parameters().follow(word);
        }
        for (name, value) in given {
            let mut fields = component.parameters().fields();
            let known = fields.iter().map(|field| field.name).collect();
            let Some(field) = fields.iter_mut().find(|field| field.name == *name || field.was == Some(name))
            else {
                return Err(ParameterError::Unknown { what, kind, parameter: (*name).to_owned(), known });
            };
            if !field.value.take(value) {
                let (parameter, allowed) = (field.name, field.value.kind().to_string());
                return Err(ParameterError::Value {
                    what,
                    kind,
                    parameter,
                    value: value.to_string(),
                    allowed,
                });
            }
        }
        let missing = component.parameters().fields().into_iter().find(|field| {
            field.required && !given.iter().any(|(name, _)| field.name == *name || field.was == Some(name))
        });
        match missing.map(|field| field.name) {
            Some(parameter) => Err(ParameterError::Missing { what, kind, parameter }),
            None => Ok(component),
        }
    }

    /// The parameters that differ from the defaults, and those that must be given.
    fn given(&self) -> Vec<(&'static str, Given)> {
        let (mut own, Ok(mut plain)) = (self.clone(), Self::of_kind(self.kind())) else {
            return Vec::new();
        };
        let own = own.parameters().fields();
        let preset = own.iter().find(|field| field.preset).and_then(|field| field.value.given());
        let was = plain
            .parameters()
            .fields()
            .iter()
            .find(|field| field.preset)
            .and_then(|field| field.value.given());
        if let Some(word) = &preset {
            plain.parameters().follow(word);
        }
        let differing = own.iter().zip(plain.parameters().fields()).filter(|(own, plain)| {
            let plain = if own.preset { was.clone() } else { plain.value.given() };
            own.required || own.value.given() != plain
        });
        differing.filter_map(|(own, _)| Some((own.name, own.value.given()?))).collect()
    }

    /// The files that its parameters name, with the parameters' names. What is built of it takes a file that has not been read as an empty one.
    fn files(&mut self) -> Vec<(&'static str, &mut dyn File)> {
        let fields = self.parameters().fields().into_iter();
        fields.filter_map(|field| Some((field.name, field.value.file()?))).collect()
    }

    /// Everything that is out of its range. What is built of it takes the nearest value that makes sense instead.
    fn faults(&self) -> Vec<OutOfRange> {
        self.clone().parameters().faults()
    }
}

/// A name that no component has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a {what}; there are {}", known.join(", "))]
pub struct UnknownKind {
    /// What was looked for.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: &'static [&'static str],
}

/// What is wrong with a component and its parameters as text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// There is none of that name.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// Something between the commas is no `parameter=value`.
    #[error("`{0}` is not of the form parameter=value")]
    Form(String),
    /// The component has no such parameter.
    #[error("the {what} `{kind}` has no parameter `{parameter}`; it has {}", list(known))]
    Unknown {
        /// What the component is.
        what: &'static str,
        /// Its name.
        kind: &'static str,
        /// What was asked for.
        parameter: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A value of another type.
    #[error("`{parameter}` of the {what} `{kind}` is {value}; allowed: {allowed}")]
    Value {
        /// What the component is.
        what: &'static str,
        /// Its name.
        kind: &'static str,
        /// The parameter's.
        parameter: &'static str,
        /// What was given.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A parameter that must be given is not.
    #[error("the {what} `{kind}` needs `{parameter}`")]
    Missing {
        /// What the component is.
        what: &'static str,
        /// Its name.
        kind: &'static str,
        /// The parameter's.
        parameter: &'static str,
    },
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Reads a short form: the name, and the parameters that differ from the defaults, `cubic:beta=0.5,hystart=no`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn read<C: Choice>(text: &str) -> Result<C, ParameterError> {
    let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
    let plain = C::of_kind(kind)?;
    let descriptions = plain.describe();
    let mut given = Vec::new();
    for part in parameters.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| ParameterError::Form(part.to_owned()))?;
        let named = descriptions.iter().find(|known| known.name == name || known.was == Some(name));
        let typed = named.and_then(|known| known.kind.read(value));
        given.push((name, typed.unwrap_or_else(|| Given::Text(value.to_owned()))));
    }
    let component = plain.with(&given)?;
    match component.faults().into_iter().next() {
        Some(OutOfRange { parameter, value, allowed }) => {
            let (what, kind, value) = (C::WHAT, component.kind(), value.to_string());
            Err(ParameterError::Value { what, kind, parameter, value, allowed })
        }
        None => Ok(component),
    }
}

/// Writes a short form that [`read`] reads back.
///
/// # Errors
/// Those of `f`.
pub fn write<C: Choice>(component: &C, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(component.kind())?;
    for (i, (name, value)) in component.given().into_iter().enumerate() {
        write!(f, "{}{name}={value}", if i == 0 { ':' } else { ',' })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeDelta;
    use crate::parameter::{Choice, Kind, Parameters, Words};

    /// How fast.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
    enum Pace {
        /// As it likes.
        #[default]
        Easy,
        /// As fast as it can.
        AllOut,
    }

    #[derive(Clone, Debug, PartialEq, Parameters)]
    struct Shoes {
        /// Whether it wears any.
        #[parameter(default = true)]
        shod: bool,
    }

    /// A runner.
    #[derive(Clone, Debug, PartialEq, Parameters)]
    #[component("runner")]
    struct Runner {
        /// How it runs.
        #[parameter(preset = Runner::of)]
        pace: Pace,
        #[parameter(flatten)]
        shoes: Shoes,
        /// Least stride.
        #[parameter(default = 0.5, above = 0.0, unit = "metres", was = "step")]
        least: f64,
        /// Greatest stride.
        #[parameter(default = 1.0, not_below = "least", unit = "metres")]
        greatest: f64,
        /// Rest between laps.
        #[parameter(default = TimeDelta::from_secs(60), max = TimeDelta::from_secs(120))]
        rest: TimeDelta,
        /// Laps.
        #[parameter(default = 4, required, min = 1)]
        laps: u32,
    }

    impl Runner {
        fn of(pace: Pace) -> Self {
            match pace {
                Pace::Easy => Runner::default(),
                Pace::AllOut => Runner { pace, rest: TimeDelta::ZERO, ..Runner::default() },
            }
        }
    }

    #[derive(Clone, Debug, PartialEq, Choice)]
    #[choice("creature")]
    enum Animal {
        Runner(Runner),
    }

    fn runner(text: &str) -> Runner {
        let Animal::Runner(runner) = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        runner
    }

    #[test]
    fn a_preset_holds_for_what_is_not_given_wherever_it_stands() {
        let fast = runner("runner:rest=1s,laps=2,pace=all-out,shod=no");
        assert_eq!((fast.pace, fast.rest, fast.laps), (Pace::AllOut, TimeDelta::from_secs(1), 2));
        assert_eq!(runner("runner:pace=all-out,laps=2").rest, TimeDelta::ZERO);
        assert_eq!(Animal::Runner(fast).to_string(), "runner:pace=all-out,shod=no,rest=1s,laps=2");
    }

    #[test]
    fn a_former_name_is_read_and_the_new_one_written() {
        let small = runner("runner:laps=1,step=0.25");
        assert_eq!(small.least, 0.25);
        assert_eq!(Animal::Runner(small).to_string(), "runner:least=0.25,laps=1");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_allowed() {
        let wrong = |text: &str| text.parse::<Animal>().unwrap_err().to_string();
        assert_eq!(wrong("rnner"), "`rnner` is not a creature; there are runner");
        assert_eq!(wrong("runner:laps"), "`laps` is not of the form parameter=value");
        assert_eq!(wrong("runner"), "the creature `runner` needs `laps`");
        assert_eq!(
            wrong("runner:lap=1"),
            "the creature `runner` has no parameter `lap`; it has pace, shod, least, greatest, rest, laps"
        );
        for (given, allowed) in [
            ("pace=slow", "slow; allowed: easy or all-out"),
            ("shod=perhaps", "perhaps; allowed: yes or no"),
            ("least=0", "0; allowed: above 0 metres"),
            ("least=inf", "inf; allowed: above 0 metres"),
            ("greatest=0.1", "0.1; allowed: not below `least`"),
            ("rest=3min", "180s; allowed: at most 120s"),
            ("rest=3", "3; allowed: a time, such as 50ms"),
            ("laps=0", "0; allowed: 1 or more"),
            ("laps=1.5", "1.5; allowed: a whole number"),
        ] {
            let (name, _) = given.split_once('=').unwrap();
            let said = wrong(&format!("runner:laps=1,{given}"));
            assert_eq!(said, format!("`{name}` of the creature `runner` is {allowed}"));
        }
    }

    #[test]
    fn a_description_has_all_that_was_said() {
        let described = Animal::all()[0].describe();
        let names: Vec<&str> = described.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names, ["pace", "shod", "least", "greatest", "rest", "laps"]);
        let rest = &described[4];
        assert_eq!((rest.about, rest.kind), ("Rest between laps.", Kind::Time));
        assert_eq!(rest.default, Some(Given::Text("60s".to_owned())));
        assert_eq!(rest.with_preset, [("all-out", Some(Given::Text("0s".to_owned())))]);
        assert_eq!((described[2].unit, described[2].was), ("metres", Some("step")));
        assert!(described[5].required && described[3].with_preset.is_empty());
    }
}
