//! Flows between a simulated host and a real program.

use serde_json::Value;

use crate::live::{kept_pace, printed, run, turn};
use crate::support::{Answer, Desk};

/// a - r1 - r2 - b; a is simulated, and b is live. The link in the middle is slow, and loses one packet in a hundred.
const PATH: &str = r#"
clock = { mode = "real" }
link = [
  { between = ["a", "r1"], rate = "1Gbit/s", delay = "1ms", record = ["pcap", "packets"] },
  { between = ["r1", "r2"], rate = "50Mbit/s", delay = "3ms", mtu = "1300B", loss = { kind = "bernoulli", probability = 0.01 } },
  { between = ["r2", "b"], rate = "1Gbit/s", delay = "1ms" },
]
[[host]]
name = "b"
endpoint = "live"
"#;

fn scenario(duration: &str, programs: &[&str], flows: &[&str]) -> String {
    let programs = programs.iter().map(|keys| format!("[[host.program]]\n{keys}\n"));
    let flows = flows.iter().map(|keys| format!("[[flow]]\n{keys}\n"));
    let parts: String = programs.chain(flows).collect();
    format!("name = \"meet\"\nduration = \"{duration}\"\n{PATH}{parts}")
}

/// A program that accepts `count` connections on a port, and prints how many bytes arrived.
///
/// It closes each connection with `SO_LINGER`, which waits until the sender has acknowledged the end. So the sender has every
/// acknowledgement before the program ends, and the run with it.
fn sink(port: u16, count: u32) -> String {
    format!(
        r#"command = ["python3", "-c", """
import socket, struct
listener = socket.create_server(("::", {port}), family=socket.AF_INET6, dualstack_ipv6=True)
total = 0
for _ in range({count}):
    connection, peer = listener.accept()
    while data := connection.recv(1 << 20): total += len(data)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 300))
    connection.close()
print(total)
"""]"#
    )
}

fn flow<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let flows = summary["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap_or_else(|| panic!("{name}: {summary}"))
}

fn number(desk: &Desk, name: &str) -> u64 {
    let text = printed(desk, name);
    text.trim().parse().unwrap_or_else(|error| panic!("{name}: {error}: {text:?}"))
}

#[test]
fn a_program_receives_every_byte_from_simulated_tcp() {
    let Some(_turn) = turn(&["python3"]) else { return };
    let desk = Desk::new();
    // The flows wait until the programs listen, however long these take to start.
    let to = "from = \"a\"\nto = \"b\"\nwait = \"500s\"\n";
    let flows = [
        format!(
            "{to}name = \"bulk\"\nport = 5001\napp = \"transfer\"\nsize = \"4MB\"\nrecord = [\"tcp\", \"qlog\", \"latency\"]"
        ),
        format!(
            "{to}name = \"six\"\nport = 5002\nipv6 = true\napp = \"transfer\"\nsize = \"500kB\"\ntransfers = 3"
        ),
        format!(
            "{to}name = \"cbr\"\nport = 5003\napp = \"cbr\"\nrate = \"1Mbit/s\"\ntransport = \"tcp\"\nstop = \"10s\""
        ),
    ];
    let flows = flows.each_ref().map(String::as_str);
    let sinks = [sink(5001, 1), sink(5002, 3), sink(5003, 1)];
    let until = "until = [\"b.0 exits\", \"b.1 exits\", \"b.2 exits\"]\n";
    let scenario = until.to_owned() + &scenario("600s", &sinks.each_ref().map(String::as_str), &flows);
    let answer = run(&desk, &scenario).fine();
    let summary = desk.summary("out");
    for (at, name) in ["bulk.0", "six.0", "cbr.0"].into_iter().enumerate() {
        let flow = flow(&summary, name);
        assert_eq!(flow["delivered_bytes"], number(&desk, &format!("b.{at}.stdout")), "{flow}\n{answer:?}");
        assert_eq!(flow["outcome"], Value::Null, "{flow}");
        assert!(flow["end_s"].as_f64().is_none_or(|end| end < 600.0), "{flow}");
        assert!(flow["rtt_min_ms"].as_f64().unwrap() >= 10.0, "{flow}");
    }
    assert_eq!(flow(&summary, "six.0")["transfers_completed"], 3);
    assert_eq!(flow(&summary, "six.0")["delivered_bytes"], 1_500_000);
    assert!(flow(&summary, "bulk.0")["retransmitted_packets"].as_u64().unwrap() > 0);
    assert!(flow(&summary, "bulk.0")["latency_p95_ms"].as_f64().unwrap() > 10.0);
    let cbr = flow(&summary, "cbr.0")["goodput_bps"].as_f64().unwrap();
    assert!((0.9e6..1.1e6).contains(&cbr) || !kept_pace(&summary), "{cbr}");
    for file in ["bulk.0.sqlog", "tcp.parquet", "series_flows.parquet", "a-r1.pcapng"] {
        assert!(desk.path().join("out").join(file).exists(), "{file}");
    }
}

#[test]
fn programs_use_the_services_of_a_simulated_host() {
    let Some(_turn) = turn(&["python3", "curl"]) else { return };
    let desk = Desk::new();
    let from = "from = \"b\"\nto = \"a\"\n";
    let flows = [
        format!("{from}app = \"http\"\nport = 80\nsize = \"300kB\"\ncc = \"reno\"\nrecord = [\"tcp\"]"),
        format!("{from}app = \"discard\"\nport = 9"),
        format!("{from}app = \"echo\"\nport = 7"),
        format!("{from}app = \"source\"\nport = 19\nsize = \"200kB\""),
    ];
    let get = |url: &str| {
        format!(
            "command = [\"curl\", \"-sS\", \"--max-time\", \"100\", \"-o\", \"/dev/null\", \"-w\", \"%{{size_download}}\", \"{url}\"]"
        )
    };
    let python = |body: &str| {
        format!("command = [\"python3\", \"-c\", \"\"\"\nimport socket, threading\n{body}\n\"\"\"]")
    };
    let prints = |text: &str| format!("\nready = {{ prints = \"{text}\", within = \"500s\" }}");
    let programs = [
        get("http://{a}/") + &prints("300000"),
        get("http://[{a:6}]/bytes/123456") + &prints("123456"),
        python(
            "s = socket.create_connection(('{a}', 9))\ns.sendall(bytes(1000000)); s.shutdown(socket.SHUT_WR)\nassert s.recv(1) == b''\nprint('over')",
        ) + &prints("over"),
        python(
            "s = socket.create_connection(('{a:6}', 7)); data = bytes(range(256)) * 1000\nthreading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()\ngot = b''\nwhile part := s.recv(65536): got += part\nassert got == data\nprint('over')",
        ) + &prints("over"),
        python(
            "s = socket.create_connection(('{a}', 19)); n = 0\nwhile part := s.recv(65536): n += len(part)\nprint(n)",
        ) + &prints("200000"),
        "command = \"curl -sS --max-time 100 http://{a}:81/\"\nexpect = 7".to_owned(),
        "command = \"ping -n -c 3 -W 1 -i 0.2 {a}\"\nexpect = \"any\"".to_owned(),
        // It waits for those above, and what the services received is acknowledged before the run ends.
        "command = \"sleep 2\"".to_owned(),
    ];
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let until: Vec<String> = (0..programs.len()).map(|number| format!("\"b.{number} exits\"")).collect();
    let until = format!("until = [{}]\n", until.join(", "));
    let scenario = until + &scenario("600s", &programs, &flows.each_ref().map(String::as_str));
    run(&desk, &scenario).fine();
    assert_eq!((number(&desk, "b.0.stdout"), number(&desk, "b.1.stdout")), (300_000, 123_456));
    assert_eq!(number(&desk, "b.4.stdout"), 200_000);
    let summary = desk.summary("out");
    let delivered = |name: &str| flow(&summary, name)["delivered_bytes"].as_u64().unwrap();
    // Two HTTP heads.
    assert!((423_456..424_000).contains(&delivered("http.0")), "{}", delivered("http.0"));
    assert_eq!(
        (delivered("discard.0"), delivered("echo.0"), delivered("source.0")),
        (1_000_000, 256_000, 200_000)
    );
    assert!(flow(&summary, "discard.0")["sent_packets"].as_u64().unwrap() > 690);
    assert_eq!(flow(&summary, "http.0")["cc"], "reno");
    // Traffic that is not a flow of the scenario has its own row.
    let ping = flow(&summary, "icmp 10.0.0.4>10.0.0.1");
    assert_eq!((&ping["app"], &ping["from"], &ping["to"]), (&"program".into(), &"b".into(), &"a".into()));
}

#[test]
fn the_outcome_of_a_flow_says_what_its_program_did_wrong() {
    let Some(_turn) = turn(&["python3"]) else { return };
    let desk = Desk::new();
    let takes = |port: u16, then: &str| {
        format!(
            r#"command = ["python3", "-c", """
import socket
c, _ = socket.create_server(("", {port})).accept(); n = 0
while n < 200000: n += len(c.recv(65536))
{then}
"""]"#
        )
    };
    let programs = [
        // It ends with bytes that it has not read, which Linux answers with a reset.
        takes(1, "c.recv(1, socket.MSG_PEEK)\nprint('over')")
            + "\nready = { prints = \"over\", within = \"500s\" }",
        takes(2, "c.shutdown(socket.SHUT_WR)\nwhile c.recv(65536): pass\nprint('over')")
            + "\nready = { prints = \"over\", within = \"500s\" }",
        // After both have ended, their last packets must still reach the other end.
        "name = \"last\"\ncommand = \"sleep 2\"".to_owned(),
    ];
    let to = |keys: &str| format!("from = \"a\"\nto = \"b\"\nstart = \"1s\"\n{keys}");
    let flows = [
        to("name = \"closed\"\nport = 9\nwait = \"0s\""),
        to(
            "name = \"again\"\nport = 9\nwait = \"0s\"\napp = \"transfer\"\nsize = \"10kB\"\ntransfers = 2\nipv6 = true",
        ),
        to("name = \"exits\"\nport = 1"),
        to("name = \"leaves\"\nport = 2"),
    ];
    let programs = programs.each_ref().map(String::as_str);
    let text = scenario("600s", &programs, &flows.each_ref().map(String::as_str));
    let answer: Answer = run(&desk, &format!("until = \"last exits\"\n{text}")).fine();
    let summary = desk.summary("out");
    for (name, outcome, least) in [
        ("closed.0", "refused", 0),
        ("again.0", "refused", 0),
        ("exits.0", "reset", 200_000),
        ("leaves.0", "closed by the program", 200_000),
    ] {
        let flow = flow(&summary, name);
        assert_eq!(flow["outcome"], outcome, "{flow}");
        assert!(flow["end_s"].is_f64() && flow["delivered_bytes"].as_u64().unwrap() >= least, "{flow}");
        assert!(answer.stdout.contains(outcome), "{}", answer.stdout);
    }
    assert_eq!(flow(&summary, "again.0")["transfers"], 2);
    // All packets are lost, so there is no answer.
    let silent = scenario("2s", &["command = \"true\""], &[&to("port = 9\nwait = \"0s\"")])
        .replace("probability = 0.01", "probability = 1.0");
    run(&desk, &silent).fine();
    assert_eq!(flow(&desk.summary("out"), "bulk.0")["outcome"], "no answer");
}

/// If nothing listens, the run ends and the message names host, port and limit.
#[test]
fn a_flow_to_a_program_that_never_listens_ends_the_run() {
    let Some(_turn) = turn(&[]) else { return };
    let desk = Desk::new();
    let flow_keys = "name = \"lost\"\nfrom = \"a\"\nto = \"b\"\nport = 5009\nwait = \"300ms\"";
    let answer =
        run(&desk, &scenario("600s", &["command = \"sleep 1000\"\nexpect = \"running\""], &[flow_keys]));
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let told =
        "host b was not ready: nothing listened on TCP port 5009 within 300ms; flow lost.0 waited for it";
    assert!(answer.stderr.contains(told), "{answer:?}");
    let summary = desk.summary("out");
    assert_eq!((&summary["complete"], &summary["stopped"]), (&false.into(), &"not ready".into()));
    // A program that fails cannot become ready.
    let programs = [
        "name = \"server\"\ncommand = \"echo no licence >&2; exit 7\"\nready = 5009\nexpect = \"running\"",
        "name = \"client\"\ncommand = \"true\"",
    ];
    let answer = run(&desk, &scenario("600s", &programs, &[]));
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let told = "program server of host b was not ready: nothing listened on port 5009 before it ended with exit code 7; program client of \
                host b waited for it; its output: out/programs/b.server.stderr; capture: out/a-r1.pcapng";
    assert!(answer.stderr.contains(told) && answer.stderr.contains("    no licence"), "{answer:?}");
}

/// Every kind of readiness, each with a program that is slow to become ready.
#[test]
fn programs_wait_for_every_kind_of_readiness() {
    let Some(_turn) = turn(&["python3"]) else { return };
    let desk = Desk::new();
    // An existing file does not count until it changes.
    desk.write("up", "old");
    let listen = |kind: &str| {
        format!(
            "[\"python3\", \"-c\", \"import socket, time; time.sleep(0.5); s = socket.socket(type=socket.{kind}); s.bind(('', 5005)); kind = '{kind}'; kind == 'SOCK_STREAM' and s.listen(); open('is-ready', 'w').close(); time.sleep(1000)\"]"
        )
    };
    let cases = [
        (listen("SOCK_STREAM"), "5005"),
        (listen("SOCK_DGRAM"), "\"port 5005\""),
        (
            "\"sleep 0.5; touch is-ready; echo now listening on {b}; sleep 1000\"".to_owned(),
            "\"prints listening on 10.0.0.4\"",
        ),
        ("\"sleep 0.5; touch is-ready; echo up >&2; sleep 1000\"".to_owned(), "{ prints = \"up\" }"),
        ("\"sleep 0.5; touch is-ready; echo changed > up; sleep 1000\"".to_owned(), "\"file up\""),
        (
            "\"sleep 0.5; touch is-ready; sleep 1000\"".to_owned(),
            "{ command = [\"test\", \"-e\", \"is-ready\"] }",
        ),
    ];
    for (command, ready) in cases {
        let _ = std::fs::remove_file(desk.path().join("is-ready"));
        let programs = [
            format!("command = {command}\nexpect = \"running\"\nready = {ready}"),
            "name = \"client\"\ncommand = \"test -e is-ready\"".to_owned(),
        ];
        let text = scenario("600s", &programs.each_ref().map(String::as_str), &[]);
        run(&desk, &format!("until = \"client exits\"\n{text}")).fine();
    }
}

#[test]
fn an_interface_that_vanishes_ends_the_run_and_keeps_the_results() {
    let Some(_turn) = turn(&["ip", "python3"]) else { return };
    let desk = Desk::new();
    let programs = [
        sink(5001, 1) + "\nexpect = \"any\"\nready = { port = 5001, within = \"500s\" }",
        // It waits for the other program, as the flow does.
        "command = \"sleep 1; ip link delete eth0\"\nexpect = \"any\"".to_owned(),
    ];
    let flow_keys = "from = \"a\"\nto = \"b\"\nwait = \"500s\"\nport = 5001";
    let answer = run(&desk, &scenario("600s", &programs.each_ref().map(String::as_str), &[flow_keys]));
    assert_ne!(answer.code, Some(0), "{answer:?}");
    let summary = desk.summary("out");
    assert_eq!((&summary["complete"], &summary["stopped"]), (&false.into(), &"a failed port".into()));
    assert!(summary["simulated_s"].as_f64().unwrap() < 600.0, "{answer:?}");
    assert!(flow(&summary, "bulk.0")["delivered_bytes"].as_u64().unwrap() > 0);
}
