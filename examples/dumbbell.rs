//! A simulation with a congestion control of one's own: does a background transfer leave the others alone? `Shy`, which is written here, gives
//! way as soon as a queue builds up. Reno, for comparison, takes its share.
//!
//! `cargo run --release --package warpline-lab --example dumbbell`
#![allow(clippy::print_stdout, reason = "it is for people")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use warpline_core::{TimeDelta, Timestamp};
use warpline_lab::run::{CcFactory, CustomCc, RunOptions, run};
use warpline_net::Control;
use warpline_scenario::Scenario;
use warpline_transport::cc::{AckSample, CongestionControl, CongestionEvent};

const SCENARIO: &str = r#"
    name = "own-control"
    duration = "60s"
    warmup = "10s"
    seed = 1

    [topology]
    kind = "dumbbell"
    rtt = "50ms"
    bottleneck = { rate = "20Mbit/s", queue = { kind = "droptail", limit = "1BDP" } }

    [[flow]]
    name = "bulk"
    from = "left"
    to = "right"
    count = 2
    start = "0s..1s"

    [[flow]]
    name = "background"
    from = "left"
    to = "right"
"#;

/// Grows by a segment in every round trip, but shrinks by an eighth while packets wait for more than 5 ms.
#[derive(Debug)]
struct Shy {
    cwnd: u64,
    round_end: u64,
}

impl CongestionControl for Shy {
    fn on_ack(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt.filter(|_| ack.ack >= self.round_end) else { return };
        self.round_end = ack.next_seq;
        if rtt > ack.min_rtt + TimeDelta::from_millis(5) {
            self.cwnd = (self.cwnd * 7 / 8).max(2 * ack.mss);
        } else if ack.cwnd_limited {
            self.cwnd += ack.mss;
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd / 2).max(2 * event.mss);
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.cwnd = event.mss;
    }
    fn undo(&mut self, _now: Timestamp) {}
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.cwnd // never in slow start
    }
    fn name(&self) -> &'static str {
        "shy"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let shy: CcFactory = Arc::new(|config| Box::new(Shy { cwnd: config.initial_window, round_end: 0 }));
    let custom_cc = CustomCc(BTreeMap::from([("shy".to_owned(), shy)]));
    for cc in ["{ kind = 'custom', name = 'shy' }", "reno"] {
        let scenario = Scenario::from_toml("dumbbell", SCENARIO, &[format!("flow.background.cc={cc}")])?;
        let options = RunOptions { custom_cc: custom_cc.clone(), ..RunOptions::default() };
        let summary = run(&scenario, &options, &mut |_| Control::Continue)?.summary;
        for flow in &summary.flows {
            let (cc, megabits) = (flow.cc.as_deref().unwrap_or(""), flow.goodput_bps / 1e6);
            println!("{:14}{cc:6}{megabits:6.1} Mbit/s {}", flow.name, "#".repeat(megabits as usize));
        }
        println!();
    }
    Ok(())
}
