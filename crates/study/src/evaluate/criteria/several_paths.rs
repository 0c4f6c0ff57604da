//! Transport over several paths (RFC 9743 section 7.10), by the three goals of RFC 6356: improve throughput, do no harm, balance congestion.
//!
//! The algorithm runs on each subflow of a connection with two. One that couples subflows is asked; any other takes a share for each of them.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, TESTED, Trial, at_least, at_most, flows, goodput, group, tested, tested_goodput,
};

pub(super) const CRITERION: Criterion = Criterion {
    name: "several-paths",
    section: "7.10",
    question: "Do subflows of one connection, coupled by it, use several paths and take no more than one flow would?",
    trials,
};

const OTHERS: &str = "others";
/// The one flow on the better path.
const BETTER: &str = "better";

fn trials(cc: &str) -> Vec<Trial> {
    let alone = subflows(cc);
    let improve = two_paths("", &[alone.clone(), on("x", BETTER, 1), on("y", OTHERS, 5)]);
    let balance = two_paths("", &[alone.clone(), on("y", OTHERS, 2)]);
    // From 10 s on; what is measured begins at 30 s.
    let fails = two_paths("down = [{ at = \"10s\", for = \"1h\" }]", &[alone]);
    let shared = Dumbbell { queue: "red,limit=250p", duration_s: 230, warmup_s: 30, ..Dumbbell::default() };
    let harm = shared
        .with(&[flows(TESTED, cc, 1, "multipath = { paths = [[], []] }"), flows(OTHERS, "reno", 1, "")]);
    vec![
        Trial::new("improve throughput: beside 1 of reno on one path, 5 on the other", improve).ask(
            "what it gets of a flow's goodput on the better path",
            Unit::Share,
            at_least(0.8),
            of_the_better,
        ),
        Trial::new("do no harm: 2 subflows beside 1 of reno on the same path", harm).ask(
            "what the other keeps of its fair share",
            Unit::Share,
            at_least(0.8),
            kept,
        ),
        // A subflow by itself would take a third.
        Trial::new("balance congestion: 2 of reno on one path, none on the other", balance)
            .ask("share of the congested path that it takes", Unit::Share, at_most(0.25), of_the_congested)
            .ask("used of the free path", Unit::Share, at_least(0.9), of_the_free),
        Trial::new("one of two paths goes down for good", fails).ask(
            "goodput on the other, of 20 Mbit/s",
            Unit::BitPerSecond,
            at_least(18e6),
            tested_goodput,
        ),
    ]
}

/// Two paths of 20 Mbit/s and 40 ms from "a" to "b", over "x" and over "y"; `more` is said of that over "x".
fn two_paths(more: &str, flows: &[String]) -> String {
    let path = |by: &str, more: &str| {
        format!(
            "[[link]]\nname = \"{by}\"\nbetween = [\"a\", \"{by}\"]\nrate = \"20Mbit/s\"\ndelay = \"20ms\"\n\
             queue = \"red,limit=200p\"\n{more}\n[[link]]\nbetween = [\"{by}\", \"b\"]\nrate = \"1Gbit/s\"\n"
        )
    };
    format!(
        "name = \"evaluation\"\nduration = \"230s\"\nwarmup = \"30s\"\n\n{}\n{}\n{}",
        path("x", more),
        path("y", ""),
        flows.join("\n")
    )
}

/// The flow under test, with a subflow on each path.
fn subflows(cc: &str) -> String {
    let over_both = "multipath = { paths = [[\"x\"], [\"y\"]] }";
    flows(TESTED, cc, 1, over_both).replace("\"left\"", "\"a\"").replace("\"right\"", "\"b\"")
}

/// Flows of Reno on one path.
fn on(by: &str, name: &str, count: u32) -> String {
    let via = format!("via = [\"{by}\"]");
    flows(name, "reno", count, &via).replace("\"left\"", "\"a\"").replace("\"right\"", "\"b\"")
}

fn of_the_better(summary: &Summary) -> Option<f64> {
    let better = goodput(group(summary, BETTER));
    (better > 0.0).then(|| goodput(tested(summary)) / better)
}

fn kept(summary: &Summary) -> Option<f64> {
    let all = goodput(summary.flows.iter());
    (all > 0.0).then(|| 2.0 * goodput(group(summary, OTHERS)) / all)
}

fn of_the_congested(summary: &Summary) -> Option<f64> {
    let own = goodput(tested(summary).filter(|flow| flow.via.as_deref() == Some("y")));
    let all = own + goodput(group(summary, OTHERS));
    (all > 0.0).then(|| own / all)
}

/// Of 1500 bytes of a packet, 1448 are data.
fn of_the_free(summary: &Summary) -> Option<f64> {
    let free = tested(summary).filter(|flow| flow.via.as_deref() == Some("x"));
    Some(goodput(free) / (20e6 * 1448.0 / 1500.0))
}
