//! Web sessions, from a log or from distributions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::parameter::Parameters;
use warpline_core::{Bytes, TimeDelta};

use super::super::checker::Check;
use super::super::document::{Step, entry, key};
use super::super::files::Files;
use super::super::flow::Flow;
use super::super::quantity::{Size, Time};
use super::Pattern;

/// Web sessions: `from` is the server that sends the objects, `to` the client that asks for them.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("web")]
pub struct Web {
    /// The sessions.
    #[parameter(skip)]
    pub table: WebTable,
}

impl Pattern for Web {
    fn complete(&mut self, flow: &Flow) {
        self.table = flow.web.clone().unwrap_or_default();
    }

    fn check(&self, check: &mut Check<'_>, number: usize, _flow: &Flow) {
        self.table.check(check, number);
    }
}

/// Web sessions, from a proxy's log or from distributions.
///
/// A session opens pages one after another with pauses to think; a page is a number of objects, fetched over a few
/// connections at once, each object on a connection of its own.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Web")]
pub struct WebTable {
    /// A Squid access.log in the native format: each entry is a transfer of its size that starts at its time, counted from the
    /// log's first. The path is relative to the scenario file. Excludes the distributions below.
    #[schemars(example = &"traces/access.log")]
    pub access_log: Option<String>,
    /// New sessions per second (a Poisson process). Default 1.
    #[schemars(extend("exclusiveMinimum" = 0.0), example = 0.5)]
    pub session_rate: Option<f64>,
    /// Pages in a session. Default exponential, mean 5.
    #[schemars(example = &serde_json::json!({"kind": "exponential", "mean": 5}))]
    pub pages: Option<Distribution<f64>>,
    /// Objects in a page, at least one. Default Pareto, mean 8, shape 1.5.
    #[schemars(example = &serde_json::json!({"kind": "constant", "value": 4}))]
    pub objects: Option<Distribution<f64>>,
    /// Bytes in an object, at least one. Default Pareto, mean 12kB, shape 1.2, at most 10MB.
    #[schemars(example = &serde_json::json!({"kind": "pareto", "mean": "12kB", "shape": 1.2, "max": "10MB"}))]
    pub object_size: Option<Distribution<Size>>,
    /// Pause between two pages of a session. Default exponential, mean 5s.
    #[schemars(example = &serde_json::json!({"kind": "exponential", "mean": "5s"}))]
    pub think_time: Option<Distribution<Time>>,
    /// Connections that a session uses at once. Default 6.
    #[schemars(range(min = 1, max = 1000))]
    pub connections: Option<u32>,
}

/// A distribution of counts, sizes or times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "{T}Distribution")]
pub enum Distribution<T> {
    /// Always the same.
    Constant {
        /// The value.
        value: T,
    },
    /// Uniform between two values.
    Uniform {
        /// The smallest.
        min: T,
        /// The largest.
        max: T,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: T,
    },
    /// Pareto (heavy-tailed) from its smallest value, mean*(shape-1)/shape, up.
    Pareto {
        /// Mean, before it is cut off at `max`.
        mean: T,
        /// Tail index, above 1.
        shape: f64,
        /// Larger values are drawn again. Default none.
        max: Option<T>,
    },
    /// Log-normal.
    Lognormal {
        /// Median.
        median: T,
        /// Standard deviation of the logarithm, above 0.
        sigma: f64,
        /// Larger values are drawn again. Default none.
        max: Option<T>,
    },
}

/// Web sessions with every distribution filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct WebModel {
    /// New sessions per second.
    pub session_rate: f64,
    /// Pages in a session.
    pub pages: Distribution<f64>,
    /// Objects in a page.
    pub objects: Distribution<f64>,
    /// Bytes in an object.
    pub object_size: Distribution<Size>,
    /// Pause between pages.
    pub think_time: Distribution<Time>,
    /// Connections at once.
    pub connections: u32,
}

impl WebTable {
    /// The sessions with every distribution filled in.
    pub fn model(&self) -> WebModel {
        WebModel {
            session_rate: self.session_rate.unwrap_or(1.0),
            pages: self.pages.unwrap_or(Distribution::Exponential { mean: 5.0 }),
            objects: self.objects.unwrap_or(Distribution::Pareto { mean: 8.0, shape: 1.5, max: None }),
            object_size: self.object_size.unwrap_or(Distribution::Pareto {
                mean: Size(Bytes(12_000)),
                shape: 1.2,
                max: Some(Size(Bytes(10_000_000))),
            }),
            think_time: self
                .think_time
                .unwrap_or(Distribution::Exponential { mean: Time(TimeDelta::from_secs(5)) }),
            connections: self.connections.unwrap_or(6),
        }
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        let at = |name: &str| entry("flow", number, &["web", name]);
        if let Some(log) = &self.access_log {
            check.file(&at("access_log"), log, "access log", Files::log);
            let others = [
                ("session_rate", self.session_rate.is_some()),
                ("pages", self.pages.is_some()),
                ("objects", self.objects.is_some()),
                ("object_size", self.object_size.is_some()),
                ("think_time", self.think_time.is_some()),
                ("connections", self.connections.is_some()),
            ];
            for (name, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
                check.error(
                    &at(name),
                    format!("`{name}` has no effect beside `access_log`"),
                    "leave one of them out",
                );
            }
        }
        distribution(check, &at("pages"), self.pages);
        distribution(check, &at("objects"), self.objects);
        distribution(check, &at("object_size"), self.object_size);
        distribution(check, &at("think_time"), self.think_time);
    }
}

fn distribution<T: PartialOrd + Copy + Default>(
    check: &mut Check<'_>,
    path: &[Step],
    d: Option<Distribution<T>>,
) {
    let below = |name: &str| {
        let mut path = path.to_vec();
        path.push(key(name));
        path
    };
    let zero = T::default();
    match d {
        Some(Distribution::Uniform { min, max }) if min > max => {
            check.error(&below("min"), "`min` is above `max`", "");
        }
        Some(Distribution::Pareto { shape, .. }) if shape <= 1.0 => {
            check.error(&below("shape"), "`shape` must be above 1", "for example 1.5");
        }
        Some(Distribution::Lognormal { sigma, .. }) if sigma <= 0.0 => {
            check.error(&below("sigma"), "`sigma` must be above 0", "for example 1.0");
        }
        Some(
            Distribution::Pareto { mean, max: Some(max), .. }
            | Distribution::Lognormal { median: mean, max: Some(max), .. },
        ) if max < mean => {
            check.error(&below("max"), "`max` is below the middle of the distribution", "");
        }
        Some(
            Distribution::Exponential { mean: middle }
            | Distribution::Pareto { mean: middle, .. }
            | Distribution::Lognormal { median: middle, .. },
        ) if middle <= zero => {
            let name = if matches!(d, Some(Distribution::Lognormal { .. })) { "median" } else { "mean" };
            check.error(&below(name), format!("`{name}` must be above zero"), "");
        }
        Some(Distribution::Constant { value }) if value < zero => {
            check.error(&below("value"), "`value` must not be negative", "");
        }
        _ => {}
    }
}
