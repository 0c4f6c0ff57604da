//! Background transfer: what Venkataramani, Kokku and Dahlin asked of TCP Nice ("TCP Nice: A Mechanism for Background Transfers", OSDI 2002).

use warpline_results::{Summary, Unit};

use crate::evaluate::trial::{
    Dumbbell, TESTED, Trial, at_least, at_least_times, at_most_times, completion_of, flows, goodput, group,
    used,
};
use crate::evaluate::{BEYOND, Criterion};

pub(super) const CRITERION: Criterion = Criterion {
    name: "background",
    section: BEYOND,
    question: "Does it use what others leave, and nothing else, as background transfer should?",
    trials,
};

const FOREGROUND: &str = "foreground";

fn trials(cc: &str) -> Vec<Trial> {
    let path = Dumbbell { duration_s: 90, warmup_s: 20, ..Dumbbell::default() };
    // Eight hosts that fetch 200 kB each in turn, with pauses: about half of the path.
    let requests = "app = \"transfer\"\nsize = \"200kB\"\ntransfers = 0\npause = \"800ms\"";
    let demand = flows(FOREGROUND, "reno", 8, requests);
    let bulk = flows(FOREGROUND, "reno", 1, "");
    let beside = |count, foreground: &String| path.with(&[flows(TESTED, cc, count, ""), foreground.clone()]);
    let against_demand = |count, whole_only| {
        Trial::new(format!("{count} flows beside transfers of others"), beside(count, &demand))
            .without_it(path.with(std::slice::from_ref(&demand)))
            .whole_only(whole_only)
            .ask("mean completion time of the others", Unit::Second, at_most_times(1.1, 0.0), waited)
            .ask("used of the path", Unit::Share, at_least(0.8), used)
    };
    vec![
        against_demand(1, true),
        against_demand(16, false),
        Trial::new("8 flows beside a bulk transfer", beside(8, &bulk))
            .without_it(path.with(std::slice::from_ref(&bulk)))
            .ask("goodput of the other", Unit::BitPerSecond, at_least_times(0.95), kept),
    ]
}

fn waited(summary: &Summary) -> Option<f64> {
    completion_of(summary, FOREGROUND)
}

fn kept(summary: &Summary) -> Option<f64> {
    Some(goodput(group(summary, FOREGROUND)))
}
