//! The workloads of `warpline bench`, written as ordinary scenarios, on which ns-2, ns-3 and htsim are compared.
//!
//! They are dumbbells with one to a thousand long-lived flows (1500-byte packets, 50 ms base RTT, drop-tail of one
//! bandwidth-delay product, delayed ACKs, nothing recorded), and a constant-rate stream over a chain. They run the same code as
//! any scenario from a file.

use warpline_scenario::{Diagnostics, Scenario};

/// One workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name, "dumbbell-100".
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The scenario, as TOML.
    pub text: String,
}

impl Workload {
    /// Reads the scenario.
    ///
    /// # Errors
    /// Never with the workloads as they are; they are checked like any other scenario.
    pub fn scenario(&self) -> Result<Scenario, Diagnostics> {
        Scenario::from_toml(self.name, &self.text, &[])
    }
}

fn dumbbell(name: &str, flows: u32, rate_mbps: u32, duration_s: u32) -> String {
    // The queue in whole packets, rounded up, as in the other simulators.
    let limit = (f64::from(rate_mbps) * 1e6 * 0.05 / 8.0 / 1500.0).ceil();
    format!(
        r#"name = "{name}"
duration = "{duration_s}s"
seed = 1

[topology]
kind = "dumbbell"
pairs = {flows}

[topology.bottleneck]
rate = "{rate_mbps}Mbit/s"
delay = "15ms"
queue = {{ kind = "droptail", limit = "{limit}p" }}
reverse = {{ queue = {{ kind = "droptail", limit = "100000p" }} }}

[topology.access]
rate = "{access}Mbit/s"
delay = "5ms"
queue = {{ kind = "droptail", limit = "100000p" }}

[[flow]]
name = "bulk"
from = "left"
to = "right"
count = {flows}
cc = "reno"
start = "0s..1s"
"#,
        access = rate_mbps * 10
    )
}

const CHAIN: &str = r#"name = "chain"
duration = "15s"
seed = 1

[topology]
kind = "chain"
hops = 10

[topology.hop]
rate = "1Gbit/s"
delay = "1ms"

[[flow]]
name = "cbr"
from = "n0"
to = "n10"
app = "cbr"
rate = "800Mbit/s"
"#;

/// The six workloads.
pub fn workloads() -> Vec<Workload> {
    let bulk = |name, about, flows, rate, duration| Workload {
        name,
        about,
        text: dumbbell(name, flows, rate, duration),
    };
    vec![
        bulk("dumbbell-1", "1 flow, 100 Mbit/s, 100 s", 1, 100, 100),
        bulk("dumbbell-10", "10 flows, 100 Mbit/s, 100 s", 10, 100, 100),
        bulk("dumbbell-100", "100 flows, 100 Mbit/s, 100 s", 100, 100, 100),
        bulk("dumbbell-100-fast", "100 flows, 1 Gbit/s, 20 s", 100, 1000, 20),
        bulk("dumbbell-1000", "1000 flows, 100 Mbit/s, 100 s", 1000, 100, 100),
        Workload { name: "chain", about: "800 Mbit/s of UDP over 10 links, 15 s", text: CHAIN.to_owned() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workloads_are_those_of_the_other_simulators() {
        let scenarios: Vec<Scenario> =
            workloads().iter().map(|workload| workload.scenario().expect("a valid scenario")).collect();
        assert_eq!(scenarios.len(), 6);
        assert_eq!(scenarios[2].flow[0].count, 100);
    }
}
