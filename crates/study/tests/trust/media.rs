//! Media streams with congestion controls of their own: what rows say of them, beside TCP, over queues that mark, and in parts.

use warpline_lab::run::parts::Cores;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;

use crate::support::{Rows, close, parse, simulate, two_hosts};

/// A dumbbell of one pair at 2 Mbit/s with 100 ms there and back, and a queue of 300 ms: RFC 8867 section 5.6.
fn dumbbell(duration: &str, bottleneck: &str, flows: &str) -> String {
    format!(
        "duration = \"{duration}\"\nwarmup = \"20s\"\n[topology]\nkind = \"dumbbell\"\nrtt = \"100ms\"\n\
         bottleneck = {{ rate = \"2Mbit/s\", {bottleneck} }}\n{flows}"
    )
}

fn media(cc: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"media\"\napp = \"media\"\nfrom = \"left\"\nto = \"right\"\ncc = \"{cc}\"\n{more}\n"
    )
}

const TCP: &str = "[[flow]]\nname = \"tcp\"\nfrom = \"left\"\nto = \"right\"\ncc = \"reno\"\n";
/// 300 ms at 2 Mbit/s.
const QUEUE: &str = "queue = \"75kB\"";

#[test]
fn a_stream_on_an_idle_path_has_its_frames_shown_on_time() {
    let flows = r#"flow = [{ app = "media", from = "a", to = "b", stop = "59.99s" }, { app = "cbr", from = "b", to = "a", rate = "10kbit/s" }]"#;
    let outcome = two_hosts("60s", "", flows);
    let flow = outcome.flow("media.0");
    assert_eq!((flow.cc.as_deref(), flow.transport.as_str()), (Some("gcc"), "udp"));
    // 30 frames a second, all of them shown.
    assert_eq!((flow.frames_sent, flow.frames_lost, flow.frames_late), (Some(1800), Some(0), Some(0)));
    assert!(flow.frames_shown >= Some(1798), "{flow:?}");
    // 10 ms of propagation, and the time in which its packets leave: 2.5 times the rate, so less than half of a frame time.
    let delay = flow.frame_delay_mean_ms.unwrap();
    assert!((11.0..30.0).contains(&delay), "{delay}");
    assert!(flow.frame_delay_p95_ms.unwrap() >= delay && flow.frame_delay_p99_ms >= flow.frame_delay_p95_ms);
    assert_eq!((flow.freezes, flow.frozen_s), (Some(0), Some(0.0)));
    // The rate grows by 8 % a second from 300 kbit/s to the highest.
    let target = flow.target_rate_mean_bps.unwrap();
    assert!((1.0e6..1.5e6).contains(&target), "{target}");
    close(flow.throughput_bps, target, 0.1);
    assert!(flow.goodput_bps < flow.throughput_bps);
    assert!((0.7..1.0).contains(&flow.quality.unwrap()), "{:?}", flow.quality);
    let cbr = outcome.flow("cbr.0");
    assert_eq!((cbr.frames_sent, cbr.freezes, cbr.quality), (None, None, None));
    let samples = outcome.flow_samples();
    let late = samples.iter().rfind(|sample| sample.flow == 0 && sample.time_s < 59.0).unwrap();
    assert_eq!(late.target_rate_bps, Some(1.5e6));
    assert!(late.frame_delay_ms.is_some() && late.srtt_ms.is_some());
}

#[test]
fn a_flow_of_tcp_does_not_starve_a_stream_whose_threshold_adapts() {
    let share = |cc: &str| {
        let outcome = simulate(&dumbbell("120s", QUEUE, &(media(cc, "start = \"5s\"") + TCP)));
        (outcome.flow("media.0").goodput_bps, outcome.flow("tcp.0").goodput_bps)
    };
    let (adaptive, tcp) = share("gcc");
    let (fixed, _) = share("gcc:threshold_up=0,threshold_down=0");
    assert!(adaptive > 2.0 * fixed, "{adaptive} with an adaptive threshold, {fixed} with a fixed one");
    assert!(adaptive > 300e3 && tcp > 300e3, "media {adaptive}, TCP {tcp}");
}

#[test]
fn a_capacity_that_falls_freezes_the_picture_for_a_while() {
    // 300 ms at the lower rate: what does not fit is lost.
    let steady = "queue = \"15kB\"";
    let drop = "queue = \"15kB\", schedule = [{ at = \"40s\", rate = \"400kbit/s\" }]";
    for cc in ["gcc", "scream"] {
        let stream = |bottleneck| {
            let outcome = simulate(&dumbbell("60s", bottleneck, &media(cc, "start_bitrate = \"1Mbit/s\"")));
            outcome.flow("media.0").clone()
        };
        let (steady, falls) = (stream(steady), stream(drop));
        assert_eq!((steady.freezes, steady.frozen_s), (Some(0), Some(0.0)), "{cc}");
        let frozen = falls.frozen_s.unwrap();
        assert!(falls.freezes >= Some(1) && (0.2..6.0).contains(&frozen), "{cc}: {falls:?}");
        assert!(falls.quality < steady.quality && falls.frame_delay_p99_ms > steady.frame_delay_p99_ms);
    }
}

#[test]
fn marks_of_l4s_keep_the_delay_of_frames_low() {
    let delay = |cc: &str, queue: &str| {
        let outcome = simulate(&dumbbell("60s", queue, &media(cc, "max_bitrate = \"10Mbit/s\"")));
        let flow = outcome.flow("media.0").clone();
        (flow.frame_delay_mean_ms.unwrap(), flow.ce_marks, flow.goodput_bps)
    };
    let (plain, none, _) = delay("scream", QUEUE);
    let (marked, marks, goodput) = delay("scream:ecn=l4s", "queue = \"dualpi2\"");
    assert_eq!(none, 0);
    assert!(marks > 100 && goodput > 1e6, "{marks} marks, {goodput}");
    assert!(marked + 10.0 < plain, "{marked} ms with marks, {plain} ms without");
}

#[test]
fn streams_in_several_parts_do_the_same() {
    let lossy = "queue = \"30kB\", loss = \"1%\"";
    let text = dumbbell(
        "40s",
        lossy,
        &(media("gcc", "") + &media("scream", "").replace("\"media\"\napp", "\"other\"\napp") + TCP),
    );
    let flows = |cores| {
        let options = RunOptions { cores, ..RunOptions::default() };
        run(&parse(&text), &options, &mut |_| Control::Continue).unwrap().summary.flows
    };
    let whole = flows(Cores::One);
    assert!(whole[0].retransmitted_packets > 0 && whole[0].frames_shown > Some(300));
    assert_eq!(whole, flows(Cores::Exactly(4)));
}
