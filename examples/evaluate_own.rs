//! A congestion control of one's own before the questions of RFC 9743: `Steady`, which is written here, halves for losses and never slows its growth.
//! A crate with a congestion control of yours does the same with its own type.
//!
//! `cargo run --release --package warpline-study --example evaluate_own`
#![allow(clippy::print_stdout, reason = "it is for people")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use warpline_core::Timestamp;
use warpline_lab::run::{CcFactory, CustomCc, RunOptions};
use warpline_net::Control;
use warpline_study::evaluate::{CRITERIA, Plan, Verdict, evaluate};
use warpline_transport::cc::{AckSample, CongestionControl, CongestionEvent, Phase};

/// Grows by what is acknowledged, as in slow start, all the time.
#[derive(Debug)]
struct Steady {
    cwnd: u64,
    before: u64,
}

impl CongestionControl for Steady {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.cwnd_limited && !matches!(ack.phase, Phase::Cwr | Phase::Recovery) {
            self.cwnd += ack.acked;
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.before = self.cwnd;
        self.cwnd = (self.cwnd / 2).max(2 * event.mss);
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.before = self.cwnd;
        self.cwnd = event.mss;
    }
    fn undo(&mut self, _now: Timestamp) {
        self.cwnd = self.cwnd.max(self.before);
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX // always in slow start
    }
    fn name(&self) -> &'static str {
        "steady"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let steady: CcFactory =
        Arc::new(|config| Box::new(Steady { cwnd: config.initial_window, before: config.initial_window }));
    let plan = Plan {
        cc: "custom:name=steady".to_owned(),
        criteria: CRITERIA.iter().filter(|criterion| criterion.section.starts_with("5.1")).copied().collect(),
        quick: true,
        seeds: 1,
        guests: false,
        options: RunOptions {
            custom_cc: CustomCc(BTreeMap::from([("steady".to_owned(), steady)])),
            ..RunOptions::default()
        },
    };
    let evaluation = evaluate(&plan, &|_| Control::Continue)?;
    print!("{}", evaluation.render(false));
    // Growth without end has to show.
    if evaluation.count(Verdict::Missed) == 0 { Err("nothing is missed".into()) } else { Ok(()) }
}
