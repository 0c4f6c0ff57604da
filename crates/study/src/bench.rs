//! The workloads of `warpline bench`, written as ordinary scenarios, on which ns-2, ns-3 and htsim are compared.
//!
//! They are dumbbells with one to a thousand long-lived flows (1500-byte packets, 50 ms base RTT, drop-tail of one
//! bandwidth-delay product, delayed ACKs, nothing recorded), and a constant-rate stream over a chain. They run the same code as
//! any scenario from a file.
//!
//! One is a chain of ten such dumbbells (a parking lot), in which some flows cross all bottlenecks: what many cores can share out evenly.
//!
//! In one, the flows of one host send bursts into a long queue at 10 Gbit/s.
//!
//! Two are fat-trees of 128 and 1,024 hosts at 10 Gbit/s, each host sending to another (a permutation), with equal-cost multipath and switches
//! that mark as those of DCTCP do (Alizadeh et al., SIGCOMM 2010, section 3.4): every packet that finds more than 65 waiting. The senders run Reno
//! with ECN, not DCTCP. A search found no published run times of htsim on such networks, so that there is no figure of it to compare with but
//! one measured on the same machine.

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

fn fat_tree(name: &str, k: u32, duration_ms: u32) -> String {
    format!(
        r#"name = "{name}"
duration = "{duration_ms}ms"
seed = 1

[topology]
kind = "fat-tree"
k = {k}

[topology.host]
rate = "10Gbit/s"
delay = "1us"
queue = {{ kind = "droptail", limit = "1000p" }}

[topology.host.reverse]
queue = {{ kind = "red", limit = "1000p", min_threshold = "65p", max_threshold = "66p", max_probability = 1.0, weight = 1.0, gentle = false, ecn = true, hard_drop = false }}

[[flow]]
name = "bulk"
from = "host"
to = "host"
pattern = "permutation"
cc = "reno"
tcp = {{ ecn = true }}
start = "0s..100us"
"#
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

const DUMBBELLS: &str = r#"name = "dumbbells"
duration = "20s"
seed = 1

[topology]
kind = "parking-lot"
hops = 10
pairs = 10

[topology.hop]
rate = "100Mbit/s"
delay = "5ms"
queue = { kind = "droptail", limit = "417p" }
reverse = { queue = { kind = "droptail", limit = "100000p" } }

[topology.access]
rate = "1Gbit/s"
delay = "5ms"
queue = { kind = "droptail", limit = "100000p" }

[[flow]]
name = "across"
from = "left"
to = "right"
count = 10
cc = "reno"
start = "0s..1s"

[[flow]]
name = "one-hop"
from = "in"
to = "out"
count = 200
cc = "reno"
start = "0s..1s"
"#;

/// All flows share the link before the bottleneck. A sender that has repaired its losses sends a whole window at once, into a queue that is long already.
const BURSTS: &str = r#"name = "bursts"
duration = "5s"
seed = 1

[[link]]
between = ["sender", "near"]
rate = "100Gbit/s"
delay = "1ms"

[[link]]
between = ["near", "far"]
rate = "10Gbit/s"
delay = "48ms"
queue = { kind = "droptail", limit = "83334p" }

[[link]]
between = ["far", "receiver"]
rate = "100Gbit/s"
delay = "1ms"

[[flow]]
name = "bulk"
from = "sender"
to = "receiver"
count = 20
cc = "reno"
"#;

/// The workloads.
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
        Workload {
            name: "dumbbells",
            about: "a chain of 10 dumbbells, 20 flows in each and 10 in all, 100 Mbit/s, 20 s",
            text: DUMBBELLS.to_owned(),
        },
        Workload {
            name: "bursts",
            about: "20 flows from one host, 10 Gbit/s, 100 ms, 5 s",
            text: BURSTS.to_owned(),
        },
        Workload {
            name: "fat-tree-8",
            about: "128 flows between 128 hosts, 10 Gbit/s, 20 ms",
            text: fat_tree("fat-tree-8", 8, 20),
        },
        Workload {
            name: "fat-tree-16",
            about: "1024 flows between 1024 hosts, 10 Gbit/s, 2 ms",
            text: fat_tree("fat-tree-16", 16, 2),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workloads_are_those_of_the_other_simulators() {
        let scenarios: Vec<Scenario> =
            workloads().iter().map(|workload| workload.scenario().expect("a valid scenario")).collect();
        assert_eq!(scenarios[2].flow[0].count, 100);
        let hosts = |name: &str| {
            let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("it is there");
            let expanded = scenario.expand();
            assert!(expanded.flows.iter().all(|flow| flow.tcp_from.ecn));
            (expanded.flows.len(), expanded.nodes.iter().filter(|node| node.starts_with("host.")).count())
        };
        assert_eq!((hosts("fat-tree-8"), hosts("fat-tree-16")), ((128, 128), (1024, 1024)));
    }
}
