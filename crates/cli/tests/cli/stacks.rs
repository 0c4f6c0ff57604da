//! Transport stacks of this process as hosts of a run.

use crate::support::Desk;

/// Two hosts on a slow link that loses packets, with a capture, and a flow with these keys.
fn scenario(from: &str, to: &str, flow: &str) -> String {
    let host = |name: &str, endpoint: &str| match endpoint {
        "model" => String::new(),
        _ => format!("[[host]]\nname = \"{name}\"\nendpoint = \"{endpoint}\"\n\n"),
    };
    format!(
        "name = \"stacks\"\nduration = \"60s\"\nseed = 3\n\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\n\
         delay = \"10ms\"\nloss = \"0.5%\"\nrecord = [\"pcap\"]\n\n{}{}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n",
        host("a", from),
        host("b", to),
    )
}

/// A transfer from every kind of host to every other, with each byte checked.
#[test]
fn a_transfer_is_whole_between_models_and_stacks() {
    let desk = Desk::new();
    for (from, to) in
        [("stack:smoltcp", "stack:smoltcp"), ("model", "stack:smoltcp"), ("stack:smoltcp", "model")]
    {
        desk.write("stacks.toml", &scenario(from, to, "app = \"transfer\"\nsize = \"1MB\""));
        desk.warpline(&["run", "stacks.toml", "--out", "run", "--force"]).fine();
        let flow = &desk.summary("run")["flows"][0];
        assert_eq!(flow["delivered_bytes"], 1_000_000, "{from} to {to}: {flow}");
        assert_eq!(
            (&flow["transfers_completed"], &flow["outcome"]),
            (&1.into(), &serde_json::Value::Null),
            "{flow}"
        );
        let number = |key: &str| flow[key].as_u64().unwrap();
        assert!(
            number("retransmitted_packets") > 0 && number("sent_packets") > 680,
            "{from} to {to}: {flow}"
        );
        assert!(desk.names("run").iter().any(|name| name.ends_with(".pcapng")), "{:?}", desk.names("run"));
    }
}

#[test]
fn applications_of_a_model_run_on_a_stack() {
    let desk = Desk::new();
    for (flow, delivered) in [
        ("app = \"bulk\"\nstop = \"10s\"", 1_000_000),
        ("app = \"cbr\"\ntransport = \"tcp\"\nrate = \"1Mbit/s\"", 7_000_000),
        ("app = \"poisson\"\ntransport = \"tcp\"\nmessage_rate = 10\nmessage_size = \"1KB\"", 400_000),
        ("app = \"web\"", 10_000),
    ] {
        desk.write("stacks.toml", &scenario("stack:smoltcp", "stack:smoltcp", flow));
        desk.warpline(&["run", "stacks.toml", "--out", "run", "--force"]).fine();
        let row = &desk.summary("run")["flows"][0];
        assert!(row["delivered_bytes"].as_u64().unwrap() > delivered, "{flow}: {row}");
        assert_eq!(row["outcome"], serde_json::Value::Null, "{flow}: {row}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let desk = Desk::new();
    desk.write("stacks.toml", &scenario("stack:smoltcp", "model", "app = \"web\""));
    for out in ["one", "two"] {
        desk.warpline(&["run", "stacks.toml", "--out", out]).fine();
    }
    for name in desk.names("one").iter().filter(|name| *name != "audit.json") {
        let read = |run: &str| std::fs::read(desk.path().join(run).join(name)).unwrap();
        assert!(read("one") == read("two"), "{name} differs");
    }
}

#[test]
fn what_a_stack_cannot_do_is_said_with_its_place() {
    let desk = Desk::new();
    for (flow, parts) in [
        ("cc = \"bbr\"", ["stacks.toml:19:", "has no congestion control `bbr`", "allowed: cubic, reno"]),
        ("app = \"cbr\"\nrate = \"1Mbit/s\"", ["stacks.toml:19:", "carries TCP only", "transport"]),
        ("max_rate = \"1Mbit/s\"", ["stacks.toml:19:", "`max_rate` is for model hosts", "stack:smoltcp"]),
        ("app = \"echo\"\nport = 7", ["stacks.toml:19:", "cannot send or receive", "echo"]),
    ] {
        desk.write("stacks.toml", &scenario("stack:smoltcp", "model", flow));
        let wrong = desk.warpline(&["check", "stacks.toml"]);
        assert_eq!(wrong.code, Some(2), "{flow}: {wrong:?}");
        for part in parts {
            assert!(wrong.stderr.contains(part), "{flow}: {part}\n{}", wrong.stderr);
        }
    }
}

#[test]
fn every_stack_of_this_process_sends_to_every_other() {
    let desk = Desk::new();
    let arguments = ["study", "stacks", "model", "stack:smoltcp", "--bytes", "200000", "--json"];
    let matrix: serde_json::Value = serde_json::from_str(&desk.warpline(&arguments).fine().stdout).unwrap();
    let rows = matrix["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        assert!(row["goodput_bps"].as_f64().is_some_and(|bps| bps > 1e5), "{row}");
    }
}
