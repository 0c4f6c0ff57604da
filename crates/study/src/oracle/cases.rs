//! The cases that ns-2 was run on, from its tables: the parameters, and the results of each seed.

use std::path::Path;

use serde::Serialize;

use super::OracleError;
use super::csv::{Csv, Row};

/// A figure; its cases share one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Goodput under reordering by a random delay of each packet.
    Fig1,
    /// Goodput over a number of congested hops.
    Fig6,
    /// Latency of messages on a lossy path.
    Fig7,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 3] = [Family::Fig1, Family::Fig6, Family::Fig7];

    /// "fig1".
    pub const fn name(self) -> &'static str {
        match self {
            Family::Fig1 => "fig1",
            Family::Fig6 => "fig6",
            Family::Fig7 => "fig7",
        }
    }

    /// The file with ns-2's results.
    pub const fn file(self) -> &'static str {
        match self {
            Family::Fig1 => "fig1_reorder.csv",
            Family::Fig6 => "fig6_multihop.csv",
            Family::Fig7 => "fig7_sip.csv",
        }
    }

    /// The scenario in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Family::Fig1 => {
                "goodput under reordering: 4 Mbit/s, 100 ms, exponential extra delay of every data packet"
            }
            Family::Fig6 => {
                "goodput of one flow over congested hops of 10 Mbit/s and 10 ms, cross traffic at each"
            }
            Family::Fig7 => {
                "latency of 512-byte messages, one per segment, through one connection that loses packets"
            }
        }
    }
}

/// An agent of ns-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Agent {
    /// `Agent/TCP`.
    Tahoe,
    /// `Agent/TCP/Reno`.
    Reno,
    /// `Agent/TCP/Newreno`.
    Newreno,
    /// `Agent/TCP/Sack1`.
    Sack1,
    /// `Agent/TCP/Fack`, for which Warpline has no equal.
    Fack,
    /// `Agent/TCP/Vegas`.
    Vegas,
    /// `Agent/TCP/Linux` with the kernel's reno.
    #[serde(rename = "Linux:reno")]
    LinuxReno,
    /// `Agent/TCP/Linux` with the kernel's cubic.
    #[serde(rename = "Linux:cubic")]
    LinuxCubic,
}

impl Agent {
    /// All of them.
    pub const ALL: [Agent; 8] = [
        Agent::Tahoe,
        Agent::Reno,
        Agent::Newreno,
        Agent::Sack1,
        Agent::Fack,
        Agent::Vegas,
        Agent::LinuxReno,
        Agent::LinuxCubic,
    ];

    /// Its name in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Agent::Tahoe => "Tahoe",
            Agent::Reno => "Reno",
            Agent::Newreno => "Newreno",
            Agent::Sack1 => "Sack1",
            Agent::Fack => "Fack",
            Agent::Vegas => "Vegas",
            Agent::LinuxReno => "Linux:reno",
            Agent::LinuxCubic => "Linux:cubic",
        }
    }
}

/// The parameters in which the cases of a figure differ. Times and rates are in the units of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Setting {
    /// Reordering.
    Fig1 {
        /// Mean of the extra delay in milliseconds.
        mean_delay_ms: f64,
        /// Duration in seconds.
        duration_s: f64,
        /// ns-2's queue limit in packets.
        queue: u32,
    },
    /// Congested hops.
    Fig6 {
        /// Number of congested hops.
        hops: u32,
        /// Cross flows per hop in the direction of the measured flow.
        forward: u32,
        /// Cross flows per hop in the opposite direction.
        reverse: u32,
        /// Duration in seconds.
        duration_s: f64,
        /// Whether acknowledgements are delayed.
        delayed_ack: bool,
    },
    /// Messages.
    Fig7 {
        /// Loss probability on the forward path.
        loss: f64,
        /// Mean messages per second.
        rate: f64,
        /// Duration in seconds; no messages are made in the last 30 s.
        duration_s: f64,
        /// One-way delay in milliseconds.
        one_way_ms: f64,
        /// Rate of the middle link in Mbit/s.
        bandwidth_mbps: f64,
    },
}

/// A quantity that both simulators measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Goodput of the measured flow in Mbit/s.
    Goodput,
    /// Mean goodput of the forward cross flows in Mbit/s.
    CrossGoodput,
    /// Mean message latency in milliseconds.
    MeanLatency,
    /// 95th percentile of the message latency in milliseconds.
    P95Latency,
}

impl Metric {
    /// Name with its unit, for tables.
    pub const fn label(self) -> &'static str {
        match self {
            Metric::Goodput => "goodput Mbit/s",
            Metric::CrossGoodput => "cross goodput Mbit/s",
            Metric::MeanLatency => "mean latency ms",
            Metric::P95Latency => "p95 latency ms",
        }
    }
}

/// One case: an agent in a setting, with ns-2's result for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The figure.
    pub family: Family,
    /// The sender's agent.
    pub agent: Agent,
    /// The parameters.
    pub setting: Setting,
    /// For each quantity, ns-2's results, one per seed.
    pub answers: Vec<(Metric, Vec<f64>)>,
}

impl Case {
    /// "fig1 Sack1 5 ms".
    pub fn name(&self) -> String {
        let what = match self.setting {
            Setting::Fig1 { mean_delay_ms, .. } => format!("{mean_delay_ms} ms"),
            Setting::Fig6 { hops, forward, reverse, .. } => {
                let against = if reverse > 0 { format!("-{reverse}") } else { String::new() };
                format!("{hops} hops +{forward}{against}")
            }
            Setting::Fig7 { loss, rate, .. } => format!("{}% {rate}/s", loss * 100.0),
        };
        format!("{} {} {what}", self.family.name(), self.agent.name())
    }
}

/// The cases of a figure from its table in `directory`, in the order of their first row. A table of the same
/// name in `more`, if there is one, adds seeds.
pub(super) fn read(directory: &Path, more: Option<&Path>, family: Family) -> Result<Vec<Case>, OracleError> {
    let mut tables = vec![Csv::read(&directory.join(family.file()))?];
    if let Some(further) = more.map(|more| more.join(family.file()))
        && further.exists()
    {
        tables.push(Csv::read(&further)?);
    }
    collect(&tables, family)
}

pub(super) fn collect(tables: &[Csv], family: Family) -> Result<Vec<Case>, OracleError> {
    let mut cases: Vec<Case> = Vec::new();
    let mut known: Vec<(Agent, Setting, u64)> = Vec::new();
    let mut rows = Vec::new();
    for table in tables {
        rows.extend(table.rows()?);
    }
    for row in rows {
        let agent = agent(&row)?;
        let setting = setting(&row, family)?;
        let seed: u64 = row.value("seed", "a whole number")?;
        if known.contains(&(agent, setting, seed)) {
            // The same run twice would make the spread look too small.
            return Err(row.wrong("seed", &format!("{seed} has been given for this case before")));
        }
        known.push((agent, setting, seed));
        let metrics: &[(Metric, &str, f64)] = match family {
            Family::Fig1 => &[(Metric::Goodput, "goodput_mbps", 1.0)],
            Family::Fig6 => &[
                (Metric::Goodput, "c1_goodput_mbps", 1.0),
                (Metric::CrossGoodput, "mean_cross_goodput_mbps", 1.0),
            ],
            Family::Fig7 => {
                &[(Metric::MeanLatency, "mean_latency_s", 1e3), (Metric::P95Latency, "p95_latency_s", 1e3)]
            }
        };
        let mut values = Vec::with_capacity(metrics.len());
        for &(metric, column, scale) in metrics {
            values.push((metric, row.number(column, 0.0)? * scale));
        }
        match cases.iter_mut().find(|case| case.agent == agent && case.setting == setting) {
            Some(case) => {
                for ((_, answers), (_, value)) in case.answers.iter_mut().zip(values) {
                    answers.push(value);
                }
            }
            None => {
                let answers = values.into_iter().map(|(metric, value)| (metric, vec![value])).collect();
                cases.push(Case { family, agent, setting, answers });
            }
        }
    }
    Ok(cases)
}

fn agent(row: &Row<'_>) -> Result<Agent, OracleError> {
    let name = row.text("model")?;
    Agent::ALL.into_iter().find(|agent| agent.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Agent::ALL.iter().map(|agent| agent.name()).collect();
        row.wrong("model", &format!("`{name}` is not an agent known here: {}", known.join(", ")))
    })
}

fn setting(row: &Row<'_>, family: Family) -> Result<Setting, OracleError> {
    let duration_s = row.number("dur_s", 1.0)?;
    Ok(match family {
        Family::Fig1 => Setting::Fig1 {
            mean_delay_ms: row.number("mean_delay_ms", 0.0)?,
            duration_s,
            queue: row.value("queue_pkts", "a number of packets")?,
        },
        Family::Fig6 => {
            let (forward, reverse) = variant(row.text("variant")?)
                .ok_or_else(|| row.wrong("variant", "it should read as `fwd1` or `fwd1rev1`"))?;
            let hops: u32 = row.value("hops", "a number of hops")?;
            if hops == 0 || hops > 100 {
                return Err(row.wrong("hops", "1 to 100 hops are allowed"));
            }
            let delayed_ack = row.text("delack")? == "1";
            Setting::Fig6 { hops, forward, reverse, duration_s, delayed_ack }
        }
        Family::Fig7 => {
            let loss = row.number("loss", 0.0)?;
            if loss > 1.0 {
                return Err(row.wrong("loss", "a probability is at most 1"));
            }
            Setting::Fig7 {
                loss,
                rate: row.number("rate_msgs_s", 0.001)?,
                duration_s,
                one_way_ms: row.number("oneway_ms", 2.0)?,
                bandwidth_mbps: row.number("bw_mbps", 0.001)?,
            }
        }
    })
}

/// More cross flows per hop than this must be a mistake in the file: they would not fit into memory.
const MOST_CROSS_FLOWS: u32 = 1000;

/// Cross flows per hop in the direction of the measured flow and against it, from "fwd1rev1".
fn variant(text: &str) -> Option<(u32, u32)> {
    let rest = text.strip_prefix("fwd")?;
    let (forward, reverse) = rest.split_once("rev").unwrap_or((rest, "0"));
    let number = |text: &str| text.parse().ok().filter(|&flows| flows <= MOST_CROSS_FLOWS);
    Some((number(forward)?, number(reverse)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_one_case_are_collected() {
        let text = "model,loss,seed,rate_msgs_s,dur_s,oneway_ms,bw_mbps,mean_latency_s,p95_latency_s\n\
                    Sack1,0.001,1,100,300,50,10,0.05,0.06\n\
                    Reno,0.001,1,100,300,50,10,0.05,0.06\n\
                    Sack1,0.001,2,100,300,50,10,0.07,0.08\n";
        let parsed = |name: &str, text: &str| Csv::parse(Path::new(name), text).unwrap();
        let cases = collect(&[parsed("t.csv", text)], Family::Fig7).unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].answers[0], (Metric::MeanLatency, vec![50.0, 70.0]));
        assert_eq!(cases[0].name(), "fig7 Sack1 0.1% 100/s");
        let error = |tables: &[Csv]| collect(tables, Family::Fig7).unwrap_err().to_string();
        let wrong = error(&[parsed("t.csv", &text.replace("Reno", "Rhino"))]);
        assert!(wrong.starts_with("t.csv:3:1: model: `Rhino` is not an agent known here"), "{wrong}");
        // A second table adds seeds; the same seed again is refused.
        let more = text.replace(",1,100,", ",8,100,").replace(",2,100,", ",9,100,").replace("0.07", "0.09");
        let cases = collect(&[parsed("t.csv", text), parsed("more.csv", &more)], Family::Fig7).unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].answers[0], (Metric::MeanLatency, vec![50.0, 70.0, 50.0, 90.0]));
        let twice = error(&[parsed("t.csv", text), parsed("more.csv", text)]);
        assert_eq!(twice, "more.csv:2:13: seed: 1 has been given for this case before");
    }

    #[test]
    fn variants_give_the_numbers_of_cross_flows() {
        assert_eq!(variant("fwd2197786626"), None);
        assert_eq!(variant("fwd1"), Some((1, 0)));
        assert_eq!(variant("fwd2rev1"), Some((2, 1)));
        assert_eq!(variant("both"), None);
    }
}
