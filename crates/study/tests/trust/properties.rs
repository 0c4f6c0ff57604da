//! Random small scenarios run, and no packets are lost track of or invented.

use proptest::prelude::*;
use warpline_results::{FlowRow, LinkSample, TransferRow};

use crate::support::{Rows, simulate};

/// A queue, as a scenario writes it.
fn queue() -> impl Strategy<Value = String> {
    let limit = prop_oneof![
        (3u32..60).prop_map(|packets| format!("{packets}p")),
        (5_000u32..100_000).prop_map(|bytes| format!("{bytes}B")),
        Just("2BDP".to_owned()),
    ];
    let kind = prop_oneof![
        4 => Just("kind = \"droptail\"".to_owned()),
        1 => (2u8..5).prop_map(|classes| format!("kind = \"priority\", classes = {classes}")),
        1 => any::<bool>().prop_map(|ecn| format!("kind = \"red\", ecn = {ecn}")),
        1 => any::<bool>().prop_map(|ecn| format!("kind = \"codel\", ecn = {ecn}")),
        1 => any::<bool>().prop_map(|ecn| format!("kind = \"fq_codel\", ecn = {ecn}")),
    ];
    (kind, limit).prop_map(|(kind, limit)| format!("{{ {kind}, limit = \"{limit}\" }}"))
}

/// Loss, jitter, outages and other impairments of a link, never so many that TCP gives up.
fn hazards() -> impl Strategy<Value = String> {
    let loss = prop_oneof![
        4 => Just(String::new()),
        1 => (0.0..0.05f64).prop_map(|p| format!(", loss = {{ kind = \"bernoulli\", probability = {p} }}")),
        1 => (20u64..100).prop_map(|n| format!(", loss = {{ kind = \"every\", n = {n} }}")),
        1 => Just(", loss = { kind = \"list\", packets = [2, 9, 10, 30] }".to_owned()),
        1 => Just(", loss = { kind = \"gilbert-elliott\", good_to_bad = 0.005, bad_to_good = 0.6 }".to_owned()),
    ];
    let jitter = prop_oneof![
        4 => Just(String::new()),
        1 => any::<bool>().prop_map(|r| format!(", jitter = {{ kind = \"uniform\", max = \"9ms\", reorder = {r} }}")),
        1 => any::<bool>().prop_map(|r| format!(", jitter = {{ kind = \"exponential\", mean = \"2ms\", reorder = {r} }}")),
    ];
    let more = prop_oneof![
        6 => Just(String::new()),
        1 => Just(", down = [{ at = \"500ms\", for = \"700ms\" }]".to_owned()),
        1 => Just(", record = [\"packets\"]".to_owned()),
        1 => Just(", framing = \"38B\"".to_owned()),
        1 => Just(", delays = [{ at = \"1s\", delay = \"90ms\" }, { at = \"2s\", delay = \"1ms\" }]".to_owned()),
        1 => Just(", schedule = [{ at = \"1s\", rate = \"3Mbit/s\" }, { at = \"2s\", rate = \"700kbit/s\" }]".to_owned()),
    ];
    (loss, jitter, more).prop_map(|(loss, jitter, more)| loss + &jitter + &more)
}

fn tcp() -> impl Strategy<Value = String> {
    let preset = prop::sample::select(vec!["modern", "1988-tahoe", "1990-reno", "1999-newreno", "ns2-sack1"]);
    let option = prop::sample::select(vec![
        "",
        ", ecn = true",
        ", mss = \"536B\"",
        ", delayed_ack = \"0s\"",
        ", pacing = true",
        ", sack = true",
        ", nagle = false",
        ", initial_window = \"1p\"",
        ", max_window = \"5p\"",
        ", receive_buffer = \"9kB\"",
        ", max_rate = \"300kbit/s\"",
        ", send_buffer = \"20kB\"",
        ", dupack_threshold = 1",
        ", cwnd_validation = false",
    ]);
    let cc = prop::sample::select(vec![
        "reno", "cubic", "vegas", "bic", "westwood", "ledbat", "ledbat++", "lp", "nice", "lia", "olia",
    ]);
    (preset, option, cc)
        .prop_map(|(preset, option, cc)| format!("cc = \"{cc}\", tcp = {{ preset = \"{preset}\"{option} }}"))
}

fn media_cc() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["gcc", "scream", "scream:ecn=l4s"])
}

/// Sometimes two or three subflows on the same route.
fn subflows() -> impl Strategy<Value = String> {
    let scheduler = prop::sample::select(vec!["minrtt", "roundrobin", "redundant"]);
    let several = (scheduler, any::<bool>()).prop_map(|(scheduler, third)| {
        let paths = if third { "[], [], []" } else { "[], []" };
        format!(", multipath = {{ paths = [{paths}], scheduler = \"{scheduler}\" }}")
    });
    prop_oneof![3 => Just(String::new()), 1 => several]
}

/// A flow without its ends.
fn flow() -> impl Strategy<Value = String> {
    let transfer = (1u32..300_000, 1u32..4, tcp(), subflows()).prop_map(|(size, n, tcp, more)| {
        format!("app = \"transfer\", size = \"{size}B\", transfers = {n}, {tcp}{more}")
    });
    let stop = prop::sample::select(vec!["", ", stop = \"2500ms\""]);
    prop_oneof![
        4 => transfer,
        2 => (tcp(), stop.clone(), subflows()).prop_map(|(tcp, stop, more)| format!("app = \"bulk\", {tcp}{stop}{more}")),
        1 => (29u32..1500, stop.clone()).prop_map(|(size, stop)| format!("app = \"cbr\", rate = \"400kbit/s\", packet_size = \"{size}B\"{stop}")),
        1 => (tcp(), stop.clone()).prop_map(|(tcp, stop)| format!("app = \"cbr\", transport = \"tcp\", rate = \"200kbit/s\", {tcp}{stop}")),
        1 => (tcp(), stop.clone()).prop_map(|(tcp, stop)| format!("app = \"poisson\", message_rate = 40, {tcp}{stop}")),
        1 => stop.clone().prop_map(|stop| format!("app = \"onoff\", rate = \"900kbit/s\"{stop}")),
        1 => (tcp(), stop.clone()).prop_map(|(tcp, stop)| format!("app = \"web\", {tcp}{stop}")),
        1 => (media_cc(), stop).prop_map(|(cc, stop)| format!("app = \"media\", cc = \"{cc}\"{stop}")),
    ]
}

#[derive(Clone, Debug)]
pub(crate) struct Random {
    pub(crate) text: String,
}

/// A tree of links of all kinds, and flows of all kinds over it.
pub(crate) fn scenario() -> impl Strategy<Value = Random> {
    let link = (300u32..20_000, 0u32..60, queue(), hazards()).prop_map(|(rate, delay, queue, hazards)| {
        format!("rate = \"{rate}kbit/s\", delay = \"{delay}ms\", queue = {queue}{hazards}")
    });
    let links = prop::collection::vec((link, any::<prop::sample::Index>()), 1..5);
    let ends = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let flows = prop::collection::vec((flow(), ends, 0u32..2000, 0u8..3), 1..5);
    let warmup = prop::sample::select(vec!["0s", "700ms", "3s"]);
    (links, flows, warmup, any::<u32>()).prop_map(|(links, flows, warmup, seed)| {
        // A tree: each node is connected to one before it.
        let nodes = links.len() + 1;
        let mut text = format!("duration = \"30000s\"\nwarmup = \"{warmup}\"\nseed = {seed}\nsample_interval = \"100s\"\n");
        for (i, (link, parent)) in links.iter().enumerate() {
            text += &format!("[[link]]\nbetween = [\"n{}\", \"n{}\"]\n{}\n", parent.index(i + 1), i + 1, lines(link));
        }
        for (i, (flow, (from, to), start, class)) in flows.iter().enumerate() {
            let from = from.index(nodes);
            let to = (from + 1 + to.index(nodes - 1)) % nodes;
            let flow = if flow.contains("stop") || flow.contains("transfer") {
                flow.clone()
            } else {
                format!("{flow}, stop = \"6s\"")
            };
            text += &format!(
                "[[flow]]\nname = \"f{i}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nstart = \"{start}ms\"\nclass = {class}\n{}\n",
                lines(&flow)
            );
        }
        Random { text }
    })
}

/// The members of an inline table, one per line.
fn lines(members: &str) -> String {
    let (mut depth, mut text) = (0i32, String::new());
    for c in members.chars() {
        depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
        text.push(if c == ',' && depth == 0 { '\n' } else { c });
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn packets_are_conserved_and_every_transfer_arrives(random in scenario()) {
        let outcome = simulate(&random.text);
        let samples: Vec<LinkSample> = outcome.link_samples();
        let warm = !random.text.contains("warmup = \"0s\"");
        for link in &outcome.summary.links {
            // Everything ends long before the run does: what was offered was sent or dropped, nothing waits.
            let waiting = samples.iter().rfind(|sample| sample.link == link.link).unwrap();
            prop_assert_eq!((waiting.backlog_packets, waiting.backlog_bytes), (0, 0), "{}", link.name);
            let offered = link.sent_packets + link.drops_overflow + link.drops_aqm + link.drops_down;
            if warm {
                // What waited at the end of the warm-up was offered before and sent after.
                prop_assert!(link.arrivals <= offered, "{}: {:?}", link.name, link);
            } else {
                prop_assert_eq!(link.arrivals, offered, "{}: {:?}", link.name, link);
            }
            prop_assert!(link.drops_loss <= link.sent_packets);
            prop_assert!(link.utilisation.is_none_or(|u| (0.0..=1.0).contains(&u)));
            // The longest wait is over packets that arrived after the warm-up.
            prop_assert!(warm || link.queue_delay_mean_ms <= link.queue_delay_max_ms + 1e-9);
        }
        let transfers: Vec<TransferRow> = outcome.transfers();
        for flow in &outcome.summary.flows {
            // It has stopped, everything sent is delivered, and the sender knows it.
            // With a queue of one packet, 4.3BSD's time-outs of up to 64 s make three transfers of 95 kB take 51 minutes.
            prop_assert!(flow.end_s.is_some_and(|end| end < 30_000.0), "{:?}", flow);
            // Not faster than the fastest link since its start. Over the time after the warm-up it may look faster, since
            // data that arrived out of order before counts when the hole is filled.
            let lived = flow.end_s.unwrap() - flow.start_s;
            prop_assert!(flow.delivered_bytes as f64 * 8.0 <= 20e6 * lived, "{:?}", flow);
            let own = transfers.iter().filter(|row| row.flow == flow.flow);
            let sized: u64 = own.clone().map(|row| row.bytes).sum();
            if matches!(flow.app.as_str(), "transfer" | "web") {
                prop_assert!(own.clone().all(|row| row.complete), "{:?}", flow);
                // The transfers of a multipath connection are those of its first subflow.
                let same = |other: &&FlowRow| flow.connection.is_some() && other.connection == flow.connection;
                let mut connection = outcome.summary.flows.iter().filter(same).peekable();
                let is_first = connection.peek().is_none_or(|first| first.flow == flow.flow);
                if !warm && is_first {
                    let delivered: u64 = connection.map(|flow| flow.delivered_bytes).sum();
                    let delivered = if flow.connection.is_some() { delivered } else { flow.delivered_bytes };
                    prop_assert_eq!(delivered, sized);
                    prop_assert_eq!(flow.transfers_completed, own.count() as u64);
                }
            }
            prop_assert!(flow.rtt_min_ms <= flow.rtt_max_ms);
            if flow.transport == "tcp" && flow.rtt_min_ms.is_some() {
                prop_assert!(flow.rtt_min_ms <= flow.rtt_mean_ms && flow.rtt_mean_ms <= flow.rtt_max_ms);
            }
        }
    }
}
