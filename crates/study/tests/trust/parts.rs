//! A run in several parts, at the same time, writes the same bytes as in one: in one process and in several.

use std::path::Path;

use proptest::prelude::*;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::{ApartError, RunOptions, RunOutcome, run, run_apart};
use warpline_net::Control;
use warpline_net::apart::Threads;

use crate::determinism::assert_same;
use crate::properties::scenario;
use crate::support::parse;

fn options(out: &Path, cores: Cores) -> RunOptions {
    RunOptions { out: Some(out.to_owned()), report: true, force: true, cores, ..RunOptions::default() }
}

/// Runs in as many parts as can be, up to `cores`.
fn write(text: &str, out: &Path, cores: usize) -> RunOutcome {
    run(&parse(text), &options(out, Cores::Exactly(cores)), &mut |_| Control::Continue).unwrap()
}

/// Runs each scenario in a process of its own, which are threads here.
fn apart(texts: &[&str], out: &Path) -> Vec<Result<Option<RunOutcome>, ApartError>> {
    std::thread::scope(|scope| {
        let processes = Threads::new(texts.len()).into_iter().zip(texts);
        let threads: Vec<_> = processes
            .map(|(mut processes, text)| {
                scope.spawn(move || {
                    let options = options(out, Cores::One);
                    run_apart(&parse(text), &options, &mut |_| Control::Continue, &mut processes)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A random scenario that takes little time. If `traced`, its flows over TCP are recorded.
pub(crate) fn short(text: &str, traced: bool) -> String {
    let mut text = text.replace("duration = \"30000s\"", "duration = \"8s\"");
    text = text.replace("sample_interval = \"100s\"", "sample_interval = \"500ms\"");
    if traced {
        let record = |flow: &str| match flow.contains("cc = ") && !flow.contains("media") {
            true => format!("{flow}record = [\"tcp\", \"qlog\", \"latency\"]\n"),
            false => flow.to_owned(),
        };
        let mut blocks = text.split("[[flow]]");
        let links = blocks.next().unwrap_or_default().to_owned();
        text = blocks.fold(links, |text, flow| text + "[[flow]]" + &record(flow));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 100, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_parts_writes_the_same_bytes(random in scenario(), traced: bool) {
        let text = short(&random.text, traced);
        let directory = tempfile::tempdir().unwrap();
        let whole = directory.path().join("1");
        write(&text, &whole, 1);
        for cores in [2, 3, 7] {
            let cut = directory.path().join(cores.to_string());
            write(&text, &cut, cores);
            assert_same(&whole, &cut);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 100, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_processes_writes_the_same_bytes(random in scenario(), traced: bool) {
        let text = short(&random.text, traced);
        let directory = tempfile::tempdir().unwrap();
        let whole = directory.path().join("1");
        write(&text, &whole, 1);
        for count in [2, 4] {
            let out = directory.path().join(count.to_string());
            let outcomes = apart(&vec![&*text; count], &out);
            prop_assert!(outcomes[0].as_ref().is_ok_and(Option::is_some));
            prop_assert!(outcomes[1..].iter().all(|other| other.as_ref().is_ok_and(Option::is_none)));
            assert_same(&whole, &out);
        }
    }
}

/// Connections that begin at one instant get their ports in the order of flows, wherever their ends are.
#[test]
fn captures_have_the_same_ports_for_any_number_of_cores() {
    let link = |ends: &str, rest: &str| format!("[[link]]\nbetween = {ends}\n{rest}\n");
    let far = "rate = \"1Mbit/s\"\ndelay = \"70ms\"";
    let flow = |ends: &str, rest: &str| format!("[[flow]]\n{ends}\n{rest}\n");
    let text = [
        "duration = \"5s\"\n".to_owned(),
        link("[\"a\", \"r\"]", &format!("{far}\nrecord = [\"pcap\"]")),
        link("[\"b\", \"r\"]", far),
        link("[\"r\", \"c\"]", "rate = \"10Mbit/s\"\ndelay = \"5ms\""),
        flow("from = \"a\"\nto = \"c\"", "app = \"onoff\"\nrate = \"1Mbit/s\"\ntransport = \"tcp\""),
        flow("from = \"b\"\nto = \"c\"", ""),
        flow("from = \"b\"\nto = \"a\"", "app = \"media\""),
    ]
    .concat();
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("1");
    write(&text, &whole, 1);
    for cores in [2, 3, 4] {
        let cut = directory.path().join(cores.to_string());
        write(&text, &cut, cores);
        assert_same(&whole, &cut);
    }
}

#[test]
fn the_number_of_parts_is_told() {
    let text = "duration = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\n\
        bottleneck = { rate = \"10Mbit/s\", delay = \"10ms\" }\n[[flow]]\nfrom = \"left\"\nto = \"right\"\ncount = 4\n";
    let directory = tempfile::tempdir().unwrap();
    let parts = |cores: usize| write(text, &directory.path().join(cores.to_string()), cores).parts;
    assert_eq!((parts(1).count(), parts(2).count(), parts(3).count()), (1, 2, 3));
    assert_eq!(parts(1).to_string(), "one part: one core was asked for");
    assert!(parts(2).to_string().starts_with("2 parts, at links of "), "{}", parts(2));
    // So little to do is not worth a second core.
    let options = RunOptions { cores: Cores::UpTo(8), ..RunOptions::default() };
    let quiet = text.replace("10Mbit/s", "100kbit/s");
    let outcome = run(&parse(&quiet), &options, &mut |_| Control::Continue).unwrap();
    assert_eq!(outcome.parts.to_string(), "one part: no cut would make it faster");
}
