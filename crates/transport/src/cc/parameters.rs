//! Algorithms as text: a name, and the parameters that differ from its defaults, `cubic:beta=0.5,hystart=no`. Command lines and the network
//! carry them so.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use warpline_core::TimeDelta;

use super::algorithm::{Algorithm, InvalidParameter, UnknownAlgorithm};
use super::lp::LpVariant;
use super::reno::ReduceFrom;
use super::slow_start::{AckCounting, Hystart, SlowStartParams};
use super::vegas::VegasEstimate;

/// Text that says no algorithm.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParseAlgorithmError {
    /// There is none of that name.
    #[error(transparent)]
    Name(#[from] UnknownAlgorithm),
    /// Something between the commas is no `parameter=value`.
    #[error("`{0}` is not of the form parameter=value")]
    Form(String),
    /// The algorithm has no such parameter.
    #[error("`{algorithm}` has no parameter `{parameter}`; it has {known}")]
    Parameter {
        /// The algorithm's name.
        algorithm: &'static str,
        /// What was asked for.
        parameter: String,
        /// What there is.
        known: String,
    },
    /// A value that the parameter cannot have.
    #[error("`{parameter}` of the congestion control `{algorithm}` is {value}; it must be {allowed}")]
    Value {
        /// The algorithm's name.
        algorithm: &'static str,
        /// The parameter's.
        parameter: &'static str,
        /// What was given.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A value outside its range.
    #[error(transparent)]
    Range(#[from] InvalidParameter),
}

/// A parameter's value, whatever it is.
trait Value {
    fn text(&self) -> String;
    /// Takes the value that `text` says, or tells what it may say.
    fn take(&mut self, text: &str) -> Result<(), &'static str>;
}

impl Value for f64 {
    fn text(&self) -> String {
        self.to_string()
    }
    fn take(&mut self, text: &str) -> Result<(), &'static str> {
        *self = text.parse().map_err(|_| "a number")?;
        Ok(())
    }
}

impl Value for u32 {
    fn text(&self) -> String {
        self.to_string()
    }
    fn take(&mut self, text: &str) -> Result<(), &'static str> {
        *self = text.parse().map_err(|_| "a whole number")?;
        Ok(())
    }
}

impl Value for TimeDelta {
    fn text(&self) -> String {
        self.to_string()
    }
    fn take(&mut self, text: &str) -> Result<(), &'static str> {
        *self = text.parse().map_err(|_| "a time, such as 60ms")?;
        Ok(())
    }
}

/// A value that is one of a few words.
macro_rules! words {
    ($type:ty, $allowed:literal, $($word:literal => $value:pat => $make:expr),+) => {
        impl Value for $type {
            fn text(&self) -> String {
                match self { $( $value => $word, )+ }.to_owned()
            }
            fn take(&mut self, text: &str) -> Result<(), &'static str> {
                *self = match text { $( $word => $make, )+ _ => return Err($allowed) };
                Ok(())
            }
        }
    };
}

words!(bool, "yes or no", "yes" => true => true, "no" => false => false);
words!(AckCounting, "bytes or acks",
    "bytes" => AckCounting::Bytes => AckCounting::Bytes, "acks" => AckCounting::Acks => AckCounting::Acks);
words!(Hystart, "no, linux or rfc9406",
    "no" => Hystart::No => Hystart::No, "linux" => Hystart::Linux => Hystart::Linux,
    "rfc9406" => Hystart::Rfc9406 => Hystart::Rfc9406);
words!(ReduceFrom, "window or flight",
    "window" => ReduceFrom::Window => ReduceFrom::Window, "flight" => ReduceFrom::Flight => ReduceFrom::Flight);
words!(VegasEstimate, "linux or paper",
    "linux" => VegasEstimate::Linux => VegasEstimate::Linux, "paper" => VegasEstimate::Paper => VegasEstimate::Paper);

words!(LpVariant, "paper or linux",
    "paper" => LpVariant::Paper => LpVariant::Paper, "linux" => LpVariant::Linux => LpVariant::Linux);

type Named<'a> = (&'static str, &'a mut dyn Value);

fn slow_start<'a>(params: &'a mut SlowStartParams, rest: Vec<Named<'a>>) -> Vec<Named<'a>> {
    let mut all: Vec<Named<'a>> = vec![
        ("counting", &mut params.counting),
        ("limit", &mut params.limit),
        ("hystart", &mut params.hystart),
    ];
    all.extend(rest);
    all
}

impl Algorithm {
    /// Every parameter by the name of its field.
    fn fields(&mut self) -> Vec<Named<'_>> {
        match self {
            Algorithm::Reno(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("beta", &mut p.beta),
                    ("beta_ecn", &mut p.beta_ecn),
                    ("reduce_from", &mut p.reduce_from),
                ],
            ),
            Algorithm::Cubic(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("c", &mut p.c),
                    ("beta", &mut p.beta),
                    ("beta_ecn", &mut p.beta_ecn),
                    ("fast_convergence", &mut p.fast_convergence),
                    ("reno_friendly", &mut p.reno_friendly),
                    ("catch_up", &mut p.catch_up),
                ],
            ),
            Algorithm::Vegas(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("alpha", &mut p.alpha),
                    ("beta", &mut p.beta),
                    ("gamma", &mut p.gamma),
                    ("min_samples", &mut p.min_samples),
                    ("alternate_slow_start", &mut p.alternate_slow_start),
                    ("estimate", &mut p.estimate),
                    ("decrease", &mut p.decrease),
                ],
            ),
            Algorithm::Bic(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("beta", &mut p.beta),
                    ("fast_convergence", &mut p.fast_convergence),
                    ("max_increment", &mut p.max_increment),
                    ("low_window", &mut p.low_window),
                    ("smooth_part", &mut p.smooth_part),
                    ("ack_ratio", &mut p.ack_ratio),
                ],
            ),
            Algorithm::Westwood(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("min_sample", &mut p.min_sample),
                    ("smoothing", &mut p.smoothing),
                    ("tick", &mut p.tick),
                ],
            ),
            Algorithm::Ledbat(p) => vec![
                ("target", &mut p.target),
                ("gain", &mut p.gain),
                ("allowed_increase", &mut p.allowed_increase),
                ("min_window", &mut p.min_window),
                ("base_history", &mut p.base_history),
                ("current_filter", &mut p.current_filter),
                ("slow_start", &mut p.slow_start),
            ],
            Algorithm::LedbatPlusPlus(p) => vec![
                ("target", &mut p.target),
                ("decrease", &mut p.decrease),
                ("max_gain_divisor", &mut p.max_gain_divisor),
                ("base_history", &mut p.base_history),
                ("current_filter", &mut p.current_filter),
                ("slow_down", &mut p.slow_down),
            ],
            Algorithm::Nice(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("threshold", &mut p.threshold),
                    ("fraction", &mut p.fraction),
                    ("decrease", &mut p.decrease),
                    ("floor", &mut p.floor),
                    ("burst", &mut p.burst),
                    ("alpha", &mut p.alpha),
                    ("beta", &mut p.beta),
                    ("gamma", &mut p.gamma),
                    ("growth", &mut p.growth),
                    ("target", &mut p.target),
                    ("start", &mut p.start),
                    ("most_delay", &mut p.most_delay),
                    ("own_packets", &mut p.own_packets),
                    ("max_of_rounds", &mut p.max_of_rounds),
                    ("prompt", &mut p.prompt),
                    ("base_window", &mut p.base_window),
                ],
            ),
            Algorithm::Lp(p) => slow_start(
                &mut p.slow_start,
                vec![
                    ("threshold", &mut p.threshold),
                    ("smoothing", &mut p.smoothing),
                    ("inference", &mut p.inference),
                    ("variant", &mut p.variant),
                ],
            ),
            Algorithm::Fixed(p) => vec![("segments", &mut p.segments)],
        }
    }

    /// Names and values of all parameters, as text.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut copy = *self;
        copy.fields().into_iter().map(|(name, value)| (name, value.text())).collect()
    }
}

impl fmt::Display for Algorithm {
    /// As it is read back: the name, and what differs from its defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let default = Algorithm::from_name(self.name()).map_or_else(|_| vec![], |plain| plain.parameters());
        let differing = self.parameters().into_iter().zip(default).filter(|(own, plain)| own.1 != plain.1);
        for (i, ((name, value), _)) in differing.enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    /// Reads `reno`, `cubic:beta=0.5,c=1`, `ledbat:target=60ms`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut algorithm = Algorithm::from_name(name)?;
        let called = algorithm.name();
        for part in parameters.split(',').filter(|part| !part.is_empty()) {
            let form = || ParseAlgorithmError::Form(part.to_owned());
            let (parameter, value) = part.split_once('=').ok_or_else(form)?;
            let mut fields = algorithm.fields();
            let Some((name, field)) = fields.iter_mut().find(|(name, _)| *name == parameter) else {
                let known: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                let (parameter, known) = (parameter.to_owned(), known.join(", "));
                return Err(ParseAlgorithmError::Parameter { algorithm: called, parameter, known });
            };
            field.take(value).map_err(|allowed| ParseAlgorithmError::Value {
                algorithm: called,
                parameter: name,
                value: value.to_owned(),
                allowed,
            })?;
        }
        match algorithm.check().into_iter().next() {
            Some(wrong) => Err(wrong.into()),
            None => Ok(algorithm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_survives_as_text_with_every_parameter_changed() {
        for name in Algorithm::names() {
            let plain: Algorithm = name.parse().unwrap();
            assert_eq!(plain.to_string(), *name);
            let mut changed = plain;
            for (_, value) in changed.fields() {
                let (old, mut taken) = (value.text(), false);
                for other in ["0.625", "no", "yes", "acks", "flight", "paper", "linux", "7", "77ms"] {
                    taken = taken || (other != old && value.take(other).is_ok());
                }
                assert!(taken && value.text() != old, "{name}");
            }
            let text = changed.to_string();
            assert_eq!(text.matches('=').count(), plain.parameters().len(), "{text}");
            if changed.check().is_empty() {
                assert_eq!(text.parse::<Algorithm>().unwrap(), changed);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_allowed() {
        let told = |text: &str| text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(told("renno").contains("there are reno, cubic"));
        assert_eq!(told("reno:beta"), "`beta` is not of the form parameter=value");
        assert_eq!(
            told("reno:bta=1"),
            "`reno` has no parameter `bta`; it has counting, limit, hystart, beta, beta_ecn, reduce_from"
        );
        assert_eq!(
            told("cubic:hystart=maybe"),
            "`hystart` of the congestion control `cubic` is maybe; it must be no, linux or rfc9406"
        );
        assert_eq!(
            told("cubic:beta=2"),
            "`beta` of the congestion control `cubic` is 2; it must be above 0 and below 1"
        );
        assert_eq!("cubic:".parse::<Algorithm>().unwrap(), Algorithm::default());
    }
}
