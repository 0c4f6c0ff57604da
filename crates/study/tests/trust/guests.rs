//! Scenarios with guests: real Linux kernels in simulated time.

use std::path::Path;

use warpline_lab::run::{RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::GuestSummary;
use warpline_scenario::Scenario;

use crate::busy::while_busy;
use crate::support::{Rows, parse};

/// Runs a scenario; skips if there is no guest kernel.
fn simulate(text: &str, out: Option<&Path>) -> Option<RunOutcome> {
    let options = RunOptions { tables: true, out: out.map(Path::to_owned), ..RunOptions::default() };
    match run(&parse(text), &options, &mut |_| Control::Continue) {
        Ok(outcome) => Some(outcome),
        Err(RunError::Live(reason)) if reason.contains("there is no guest kernel") => {
            warpline_skip::skip("program", reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn guests(outcome: &RunOutcome) -> &GuestSummary {
    outcome.summary.guests.as_ref().unwrap()
}

/// A guest `g`, a router, and hosts around it.
/// Goes before the scenario.
const DILATED: &str = "clock = { mode = \"dilated\", tdf = 10 }\n";

const STAR: &str = r#"
duration = "10s"
warmup = "2s"
[[link]]
between = ["g", "r"]
rate = "100Mbit/s"
delay = "1ms"
[[link]]
between = ["r", "h"]
rate = "10Mbit/s"
delay = "10ms"
queue = { kind = "droptail", limit = "30p" }
[[host]]
name = "g"
endpoint = "guest"
"#;

const OTHER: &str = "[[host]]\nname = \"h\"\nendpoint = \"guest\"\n";

/// TCP's goodput on 10 Mbit/s: 1448 of 1500 bytes.
const FULL: f64 = 10e6 * 1448.0 / 1500.0;

#[track_caller]
fn assert_about(goodput: f64, expected: f64) {
    assert!((goodput / expected - 1.0).abs() < 0.04, "{goodput} is not {expected}");
}

#[test]
fn linux_talks_to_linux_and_to_the_model_in_both_directions() {
    for (hosts, from, to, cc) in [(OTHER, "g", "h", "bbr"), ("", "g", "h", "reno"), ("", "h", "g", "cubic")] {
        let flow = format!("[[flow]]\nname = \"f\"\nfrom = \"{from}\"\nto = \"{to}\"\ncc = {cc:?}\n");
        let Some(outcome) = simulate(&format!("{STAR}{hosts}{flow}"), None) else { return };
        assert!(outcome.complete && outcome.failures.is_empty(), "{:?}", outcome.failures);
        let row = outcome.flow("f.0");
        assert_about(row.goodput_bps, FULL);
        assert_eq!((row.from.as_str(), row.to.as_str(), row.app.as_str()), (from, to, "bulk"));
        assert!(guests(&outcome).reproducible);
        // Every sample has a window once the connection is established.
        let samples: Vec<_> =
            outcome.flow_samples().into_iter().filter(|sample| sample.flow == row.flow).collect();
        assert!(samples.len() >= 10, "{}", samples.len());
        if hosts == OTHER || from == "h" {
            assert!(samples[5..].iter().all(|sample| sample.cwnd_bytes.unwrap() > 10_000), "{samples:?}");
        }
    }
}

#[test]
fn a_flow_of_a_kernel_with_large_buffers_stops_when_it_is_told() {
    let large = "sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 33554432 33554432\" }\n";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"g\"\nto = \"h\"\nstop = \"6s\"\n";
    let Some(outcome) = simulate(&format!("{STAR}{large}{OTHER}{flow}"), None) else { return };
    // Of the eight seconds after the warm-up, it sends in four.
    assert_about(outcome.flow("f.0").goodput_bps, FULL / 2.0);
}

#[test]
fn cubic_leaves_slow_start_at_the_segment_at_which_linux_does() {
    // By a train of acknowledgements on the first two paths, by a rise of the round-trip time on the third.
    for (rate, rtt) in [("10Mbit/s", "30ms"), ("50Mbit/s", "20ms"), ("5Mbit/s", "40ms")] {
        let scenario = format!(
            "duration = \"2s\"\n[topology]\nkind = \"dumbbell\"\nrtt = {rtt:?}\nbottleneck = {{ rate = {rate:?} }}\n\
             [tcp]\nquick_acks = 16\ntick = \"10ms\"\nreceive_buffer = \"16MiB\"\nreceive_ssthresh = \"65535B\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"left\"\nto = \"right\"\n"
        );
        let large = "endpoint = \"guest\"\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 33554432 33554432\", \"net.ipv4.tcp_wmem\" = \"4096 33554432 33554432\" }\n";
        let hosts = ["left.0", "right.0"].map(|name| format!("[[host]]\nname = {name:?}\n{large}")).concat();
        let Some(linux) = simulate(&format!("{scenario}{hosts}"), None) else { return };
        let model = simulate(&scenario, None).unwrap();
        let [model, linux] = [model, linux].map(|outcome| {
            let left = outcome.flow_samples().into_iter().find_map(|sample| sample.ssthresh_bytes);
            left.unwrap() / 1448
        });
        assert_eq!(model, linux, "{rate} {rtt}");
    }
}

#[test]
fn flows_from_guests_have_the_round_trips_of_their_kernels() {
    let rows = "[[flow]]\nname = \"bulk\"\nfrom = \"g\"\nto = \"h\"\nstop = \"6s\"\n\
                [[flow]]\nname = \"short\"\nfrom = \"g\"\nto = \"h\"\napp = \"transfer\"\nsize = \"2kB\"\nstart = \"7.01s\"\n\
                [[flow]]\nname = \"ask\"\nfrom = \"h\"\nto = \"g\"\napp = \"request\"\nsize = \"2kB\"\nrequests = 9\nstart = \"7.5s\"\n";
    let model = "[[link]]\nbetween = [\"m\", \"r\"]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\n\
                 [[flow]]\nname = \"model\"\nfrom = \"g\"\nto = \"m\"\napp = \"transfer\"\nsize = \"20kB\"\nstart = \"9s\"\n";
    let Some(outcome) = simulate(&format!("{STAR}{OTHER}{rows}{model}"), None) else { return };
    for name in ["bulk.0", "short.0", "ask.0", "model.0"] {
        let row = outcome.flow(name);
        let [min, mean, max] = [row.rtt_min_ms, row.rtt_mean_ms, row.rtt_max_ms]
            .map(|rtt| rtt.unwrap_or_else(|| panic!("no round trips: {row:?}")));
        // The base round trip is 22 ms; thirty packets wait for at most 36 ms.
        assert!((22.0..60.0).contains(&min) && min <= mean && mean <= max && max < 100.0, "{row:?}");
        // The queue is full most of the time.
        assert!(name != "bulk.0" || mean > 30.0, "{row:?}");
    }
}

/// A server that is slow to start, a client that would fail without it, and a simulated flow to it. The run ends with the client.
#[test]
fn waiting_for_a_program_of_a_guest_is_repeatable_and_so_is_the_end() {
    let server = "import socket, time; time.sleep(1.5); s = socket.create_server(('', 9000)); print('listening', flush=True)\n\
                  while True: s.accept()[0].recv(1)";
    let text = format!(
        "until = \"client exits\"\n{STAR}[[host.program]]\nname = \"server\"\ncommand = [\"python3\", \"-c\", \"\"\"{server}\"\"\"]\n\
         ready = \"prints listening\"\nexpect = \"running\"\n{OTHER}[[host.program]]\nname = \"client\"\n\
         command = [\"python3\", \"-c\", \"import socket, time; socket.create_connection(('10.0.0.1', 9000)); time.sleep(1)\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"m\"\nto = \"g\"\nport = 9000\n[[link]]\nbetween = [\"m\", \"r\"]\nrate = \"1Mbit/s\"\n\
         delay = \"1ms\"\nrecord = [\"pcap\"]\n"
    )
    .replace("warmup = \"2s\"", "warmup = \"100ms\"");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let out = tempfile::tempdir().unwrap();
        let Some(outcome) = simulate(&text, Some(&out.path().join("run"))) else { return };
        assert!(outcome.complete && outcome.failures.is_empty(), "{:?}", outcome.failures);
        let flow = outcome.flow("f.0");
        assert!(flow.start_s > 1.5 && flow.outcome.as_deref() != Some("refused"), "{flow:?}");
        let end = outcome.summary.info.simulated_s;
        assert!((2.5..9.0).contains(&end) && guests(&outcome).reproducible, "{end}");
        let client = guests(&outcome).programs.iter().find(|row| row.name == "client").unwrap().clone();
        assert!(client.start_s.unwrap() > 1.5 && client.end_s.unwrap() <= end, "{client:?}");
        seen.push((end, client.end_s, std::fs::read(out.path().join("run/m-r.pcapng")).unwrap()));
    }
    assert!(seen[0] == seen[1], "{:?} {:?}", (seen[0].0, seen[0].1), (seen[1].0, seen[1].1));
}

#[test]
fn a_transfer_from_a_guest_has_its_size() {
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"g\"\nto = \"h\"\napp = \"transfer\"\nsize = \"1MB\"\nstart = \"3s\"\n";
    let Some(outcome) = simulate(&format!("{STAR}{OTHER}{flow}"), None) else { return };
    let row = outcome.flow("f.0");
    assert_eq!(row.delivered_bytes, 1_000_000);
    // Slow start and 691 segments at 10 Mbit/s.
    let took = row.end_s.unwrap() - 3.0;
    assert!((0.83..1.2).contains(&took), "{took}");
}

#[test]
fn requests_between_guests_are_answered_over_either_protocol() {
    for (ipv6, cc) in [(false, ""), (true, "cc = \"vegas\"\n")] {
        let flow = format!(
            "[[flow]]\nname = \"ask\"\nfrom = \"h\"\nto = \"g\"\napp = \"request\"\nsize = \"20kB\"\nrequests = 10\n\
             pause = \"100ms\"\nstart = \"3s\"\nipv6 = {ipv6}\n"
        );
        let Some(outcome) = simulate(&format!("{STAR}{OTHER}{cc}{flow}"), None) else { return };
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        // The requests have no row of their own.
        assert_eq!(outcome.summary.flows.len(), 1);
        let row = outcome.flow("ask.0");
        assert_eq!((row.from.as_str(), row.to.as_str(), row.app.as_str()), ("h", "g", "request"));
        assert_eq!((row.transfers, row.transfers_completed, row.delivered_bytes), (10, 10, 200_000));
        // The row has the congestion control of the server's kernel, which sends the answers.
        assert_eq!(row.cc.as_deref(), Some(if ipv6 { "vegas" } else { "cubic" }));
        // A round trip of 22 ms and 14 segments at 10 Mbit/s; the first answer exceeds the initial window.
        let mean = row.completion_mean_s.unwrap();
        assert!((0.036..0.046).contains(&mean), "{mean}");
        let asked = outcome.transfers();
        let times: Vec<f64> = asked.iter().map(|transfer| transfer.start_s).collect();
        assert!(times.len() == 10 && times[0] >= 3.0 && times.is_sorted(), "{times:?}");
        assert!(asked.iter().all(|transfer| transfer.complete && transfer.bytes == 20_000));
    }
}

#[test]
fn the_table_names_the_congestion_control_that_the_kernel_used() {
    let flow = |cc: &str| format!("[[flow]]\nname = \"f\"\nfrom = \"g\"\nto = \"h\"\n{cc}");
    for (host, other, flow, expected) in [
        ("", OTHER, flow(""), "cubic"),
        ("cc = \"westwood\"\n", OTHER, flow(""), "westwood"),
        ("cc = \"westwood\"\n", OTHER, flow("cc = \"reno\"\n"), "reno"),
        ("sysctl = { \"net.ipv4.tcp_congestion_control\" = \"reno\" }\n", OTHER, flow(""), "reno"),
        // Also if the other end is the model.
        ("cc = \"vegas\"\n", "", flow(""), "vegas"),
    ] {
        let text = format!("{STAR}{host}{other}{flow}").replace("\"10s\"", "\"3s\"");
        let Some(outcome) = simulate(&text, None) else { return };
        assert_eq!(outcome.flow("f.0").cc.as_deref(), Some(expected), "{text}");
    }
}

/// The packets, about one in a hundred of `count`, that a path loses.
fn losses(count: u64) -> String {
    let lost =
        (1..=count).filter(|number| warpline_core::Streams::new(*number).stream("lost").uniform() < 0.01);
    let lost: Vec<String> = lost.map(|number| number.to_string()).collect();
    format!("loss = {{ kind = \"list\", packets = [{}] }}", lost.join(", "))
}

/// A small version of `warpline study agreement`: equal paths that lose the same packets.
#[test]
fn the_model_has_the_goodput_of_linux() {
    for (seconds, loss) in [(150, losses(60_000)), (40, String::new())] {
        let mut text =
            format!("duration = \"{seconds}s\"\nwarmup = \"2s\"\nsample_interval = \"{seconds}s\"\n");
        for cc in ["reno", "cubic", "vegas", "bic", "westwood"] {
            for kind in ["linux", "model"] {
                let ends = ["a", "b"].map(|end| format!("{kind}-{cc}-{end}"));
                text += &format!(
                    "[[link]]\nbetween = [\"{}\", \"{}\"]\nrate = \"5Mbit/s\"\ndelay = \"30ms\"\n\
                     queue = {{ kind = \"droptail\", limit = \"25p\" }}\n{loss}\nreverse = {{ loss = {{ kind = \"none\" }} }}\n",
                    ends[0], ends[1],
                );
                let control = match (kind, cc) {
                    ("model", "westwood") => "{ kind = \"westwood\", tick = \"10ms\" }".to_owned(),
                    _ => format!("{cc:?}"),
                };
                text += &format!(
                    "[[flow]]\nname = \"{kind}-{cc}\"\nfrom = \"{}\"\nto = \"{}\"\ncc = {control}\n",
                    ends[0], ends[1],
                );
                if kind == "model" {
                    text += "tcp = { tick = \"10ms\", quick_acks = 16 }\n";
                    continue;
                }
                for end in &ends {
                    text += &format!("[[host]]\nname = \"{end}\"\nendpoint = \"guest\"\nmachine = \"m\"\n");
                }
            }
        }
        let Some(outcome) = simulate(&text, None) else { return };
        for cc in ["reno", "cubic", "vegas", "bic", "westwood"] {
            let goodput = |kind: &str| outcome.flow(&format!("{kind}-{cc}.0")).goodput_bps;
            let (linux, model) = (goodput("linux"), goodput("model"));
            assert!((model / linux - 1.0).abs() < 0.1, "{cc}: Linux {linux}, the model {model}");
            let lost =
                ["linux", "model"].map(|kind| outcome.flow(&format!("{kind}-{cc}.0")).retransmitted_packets);
            assert!(
                lost.iter().all(|&lost| lost > if loss.is_empty() { 5 } else { 100 } || cc == "vegas"),
                "{cc}: {lost:?}"
            );
        }
    }
}

const PROGRAMS: &str = r#"
[[host.program]]
command = ["ping", "-c", "5", "-i", "0.2", "{g}"]
start = "1s"
[[host.program]]
command = "head -c 8 /dev/urandom | od -x; date +%s.%N; cat /proc/sys/net/ipv4/tcp_sack"
[[host.program]]
command = "echo 7 > /tmp/warpline-test-result; exit 3"
collect = ["/tmp/warpline-test-result"]
"#;

#[test]
fn exit_codes_of_guests_programs_are_checked_and_their_files_collected() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let text = format!("{STAR}{OTHER}sysctl = {{ \"net.ipv4.tcp_sack\" = \"0\" }}\n{PROGRAMS}");
    let Some(outcome) = simulate(&text, Some(&out)) else { return };
    let [ping, random, wrong] = &guests(&outcome).programs[..] else { panic!() };
    assert!(ping.ok && random.ok && !wrong.ok && wrong.code == Some(3));
    assert_eq!(outcome.failures.len(), 1);
    assert!(
        outcome.failures[0].contains("program 2 of host h") && outcome.failures[0].contains("exit code 3")
    );
    // It starts on time, apart from some microseconds in the guest.
    assert!((1.0..1.001).contains(&ping.start_s.unwrap()), "{:?}", ping.start_s);
    let read = |name: &str| std::fs::read_to_string(out.join("programs").join(name)).unwrap();
    // Twice 11 ms and four serialisations of 84 bytes.
    assert!(
        read("h.0.stdout").contains("5 received") && read("h.0.stdout").contains("= 22."),
        "{}",
        read("h.0.stdout")
    );
    assert!(read("h.1.stdout").ends_with("\n0\n"));
    assert_eq!(read("h.2.file0.warpline-test-result"), "7\n");
    // The summary and the terminal name the collected file.
    let file = "programs/h.2.file0.warpline-test-result";
    assert_eq!((&wrong.files[..], ping.files.len()), (&[file.to_owned()][..], 0));
    let shown = warpline_results::render(&outcome.summary, 100);
    assert!(shown.contains(&format!("Collected from h.2: {file}\n")), "{shown}");
    assert!(!Path::new("/tmp/warpline-test-result").exists());
}

#[test]
fn the_same_seed_gives_the_same_files_even_on_a_busy_machine() {
    let directory = tempfile::tempdir().unwrap();
    let flow = "[[flow]]\nfrom = \"g\"\nto = \"h\"\n[[flow]]\nname = \"m\"\nfrom = \"h\"\nto = \"g\"\nipv6 = true\n\
                [[flow]]\nfrom = \"h\"\nto = \"g\"\napp = \"request\"\nsize = \"30kB\"\npause = \"50ms\"\n";
    let text = format!("{STAR}{OTHER}{PROGRAMS}{flow}")
        .replace("limit = \"30p\" }", "limit = \"30p\" }\nrecord = [\"pcap\"]")
        .replace("delay = \"1ms\"", "delay = \"1ms\"\nrecord = [\"pcap\"]")
        .replace("exit 3", "exit 0");
    let files = |name: &str| {
        let out = directory.path().join(name);
        simulate(&text, Some(&out))?;
        let mut all = Vec::new();
        for part in ["", "programs"] {
            let entries = std::fs::read_dir(out.join(part)).unwrap().map(|entry| entry.unwrap().path());
            all.extend(entries.filter(|path| path.is_file()).map(|path| {
                let name = path.strip_prefix(&out).unwrap().display().to_string();
                (name, std::fs::read(&path).unwrap())
            }));
        }
        all.sort();
        Some(all)
    };
    let Some(quiet) = files("quiet") else { return };
    // Twice with all cores busy: with threads that compute, and with threads that yield all the time.
    for (name, yields) in [("busy", false), ("restless", true)] {
        let busy = while_busy(2, yields, || files(name)).unwrap();
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&quiet), names(&busy));
        // Every byte and timestamp on both links, in both directions.
        let captures: Vec<_> = quiet.iter().filter(|(name, _)| name.ends_with(".pcapng")).collect();
        assert!(captures.len() == 4 && captures.iter().all(|(_, bytes)| bytes.len() > 100_000));
        for ((name, one), (_, two)) in quiet.iter().zip(&busy) {
            assert!(one == two, "{name} differs");
        }
    }
}

#[test]
fn errors_about_guests_say_what_to_do() {
    let load = |text: String| {
        Scenario::from_toml("test.toml", &text, &[]).map(drop).map_err(|errors| errors.to_string())
    };
    let flow = "[[flow]]\nfrom = \"g\"\nto = \"h\"\n";
    for (text, parts) in [
        (
            format!("{STAR}cpu_share = 0.5\n{flow}"),
            ["`cpu_share` is for the real and the dilated clock", "leave it out"],
        ),
        (format!("{STAR}cpu_share = 2\n{flow}"), ["`cpu_share` is out of range: 2", "allowed: 0 to 1"]),
        (
            format!("{DILATED}{STAR}cpu_share = 0.0001\n{flow}"),
            ["`cpu_share` is out of range: 0.0001", "1 ms of it in a second"],
        ),
        (
            format!("{DILATED}{STAR}cpu_share = 0.5\ncpu_period = \"2s\"\n{flow}"),
            ["`cpu_period` is out of range", "1ms to 1s"],
        ),
        (
            format!("{DILATED}{STAR}cpu_period = \"20ms\"\n{flow}"),
            ["`cpu_period` goes with `cpu_share`", "add `cpu_share`"],
        ),
        (format!("{STAR}tdf = 2\n{flow}"), ["`tdf` of a guest is for the dilated clock", "with tdf = 1"]),
        (format!("{DILATED}{STAR}tdf = 0\n{flow}"), ["`tdf` is out of range: 0", "a billionth to a million"]),
        (
            format!("{DILATED}{STAR}tdf = 0.0001\n{flow}"),
            ["100000 times as fast as the network's", "a thousandth to a thousand times"],
        ),
        (
            format!("{DILATED}{STAR}tdf = 2\nforwards = true\n{flow}"),
            ["`tdf` is for hosts, and `g` forwards", "at the rates of their links"],
        ),
        (
            format!("clock = {{ mode = \"dilated\", tdf = \"auto\" }}\n{STAR}tdf = 2\n{flow}"),
            ["`tdf` of a guest does not go with tdf = \"auto\" of the clock", "give the clock a number"],
        ),
        (
            format!(
                "{DILATED}{STAR}tdf = 2\nmachine = \"m\"\n[[host]]\nname = \"h\"\nendpoint = \"guest\"\nmachine = \"m\"\ntdf = 3\n{flow}"
            ),
            ["`g` and `h` are on one machine, with different `tdf`", "a machine has one clock"],
        ),
        (format!("{STAR}memory = \"1MB\"\n{flow}"), ["`memory` is out of range", "64MiB"]),
        (
            format!("{STAR}[[host]]\nname = \"h\"\ncpu_share = 0.5\n"),
            ["`cpu_share` goes with endpoint = \"guest\"", "this is \"model\""],
        ),
        (
            format!("{STAR}{flow}app = \"cbr\"\nrate = \"1Mbit/s\"\n"),
            ["cannot send or receive app = \"cbr\"", "let a program send"],
        ),
        (
            format!("{STAR}{flow}app = \"transfer\"\nsize = \"1kB\"\ntransfers = 2\n"),
            ["one transfer only", "count = 10"],
        ),
        (
            format!("{STAR}{flow}app = \"request\"\nsize = \"1kB\"\n"),
            ["app = \"request\" needs guests", "app = \"web\" sends requests"],
        ),
        (
            format!("{STAR}{OTHER}{flow}app = \"request\"\nsize = \"1kB\"\nrequest_size = \"15B\"\n"),
            ["`request_size` is out of range: 15B", "16B or more"],
        ),
        (format!("{STAR}{OTHER}{flow}max_window = \"4p\"\n"), ["`max_window` is for model hosts", "sysctl"]),
        (
            format!("{STAR}{flow}cc = \"cubic:beta=0.5\"\n"),
            ["`cubic` of a guest's kernel has no parameters", "cc = \"cubic\""],
        ),
        (format!("{STAR}tcp = {{}}\n"), ["`tcp` goes with endpoint = \"model\"", "sysctl"]),
        (
            format!("{STAR}interrupts = \"10us\"\n{flow}"),
            ["`interrupts` goes with `offloads`", "add `offloads = true`"],
        ),
        (
            format!("{STAR}offloads = true\ninterrupts = \"101ms\"\n{flow}"),
            ["`interrupts` is out of range", "it is 0 to 100ms"],
        ),
        (
            format!("clock = {{ mode = \"real\" }}\n{STAR}offloads = true\ninterrupts = \"0s\"\n{flow}"),
            ["`interrupts` is for the virtual clock", "leave it out"],
        ),
        (
            format!(
                "{STAR}offloads = true\nmachine = \"m\"\n{OTHER}machine = \"m\"\noffloads = false\n{flow}"
            ),
            ["`g` and `h` are on one machine, with different network cards", "machines of their own"],
        ),
        (
            format!(
                "{STAR}offloads = true\ninterrupts = \"1us\"\nmachine = \"m\"\n{OTHER}machine = \"m\"\ninterrupts = \"2us\"\n{flow}"
            ),
            ["`g` and `h` are on one machine, with different `interrupts`", "give them at one of its guests"],
        ),
        (
            format!(
                "{STAR}offloads = true\nmachine = \"m\"\n[[host]]\nname = \"r\"\nendpoint = \"guest\"\nforwards = true\nmachine = \"m\"\n"
            ),
            ["`offloads` is for hosts, and `r` forwards", "a machine of its own"],
        ),
        (
            format!("{STAR}[[host]]\nname = \"h\"\noffloads = true\n"),
            ["`offloads` goes with endpoint = \"guest\"", "this is \"model\""],
        ),
        (
            format!("{STAR}[[host]]\nname = \"h\"\nmachine = \"m\"\n"),
            ["`machine` goes with endpoint = \"guest\"", "this is \"model\""],
        ),
        (
            format!("{STAR}[[host]]\nname = \"h\"\ncc = \"bbr\"\n"),
            ["`cc` goes with endpoint = \"guest\"", "this is \"model\""],
        ),
    ] {
        let error = load(text).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part}\n{error}");
        }
    }
}

#[test]
fn a_guest_that_cannot_be_set_up_says_why() {
    let text =
        format!("{STAR}sysctl = {{ \"net.ipv4.no_such\" = \"1\" }}\n[[host.program]]\ncommand = \"true\"\n");
    let result = run(&parse(&text), &RunOptions::default(), &mut |_| Control::Continue);
    let error = result.unwrap_err().to_string();
    let known = ["there is no guest kernel", "guest g: host g: cannot set sysctl net.ipv4.no_such"];
    assert!(known.iter().any(|part| error.contains(part)), "{error}");
}

#[test]
fn linux_gets_copies_of_packets_and_drops_those_with_a_changed_bit() {
    // The kernel itself finds the changed bit, or its network card does.
    for offloads in [false, true] {
        copies_and_damage(offloads);
    }
}

fn copies_and_damage(offloads: bool) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let text = r#"
duration = "5s"
[[link]]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "10ms"
duplicate = "20%"
corrupt = "2%"
[[host]]
name = "a"
endpoint = "guest"
offloads = OFFLOADS
[[host.program]]
command = ["ping", "-c", "20", "-i", "0.1", "{b}"]
expect = "any"
[[host]]
name = "b"
endpoint = "guest"
offloads = OFFLOADS
[[flow]]
name = "bulk"
from = "a"
to = "b"
"#;
    let text = text.replace("OFFLOADS", &offloads.to_string());
    let Some(outcome) = simulate(&text, Some(&out)) else { return };
    assert!(outcome.complete && guests(&outcome).reproducible, "{:?}", outcome.failures);
    let (link, flow) = (outcome.link("a>b"), outcome.flow("bulk.0"));
    assert!(link.duplicated > 100 && link.corrupted > 10 && link.drops() == 0, "{link:?}");
    // Copies are no reason to send again, and damage is one.
    let again = flow.retransmitted_packets;
    assert!((link.corrupted / 2..2 * link.corrupted).contains(&again), "{again} {}", link.corrupted);
    let ping = std::fs::read_to_string(out.join("programs/a.0.stdout")).unwrap();
    assert!(ping.contains("(DUP!)"), "{ping}");
}
