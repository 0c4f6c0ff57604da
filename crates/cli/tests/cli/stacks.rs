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

/// Between two hosts with a stack: flows, the bytes that each must deliver at least, and its congestion control.
fn carries_and_repeats(stack: &str, transport: &str, flows: &[(&str, u64, &str)]) {
    let desk = Desk::new();
    for (flow, delivered, cc) in flows {
        desk.write("two.toml", &scenario(stack, stack, flow));
        for out in ["one", "two"] {
            desk.warpline(&["run", "two.toml", "--out", out, "--force"]).fine();
        }
        let row = &desk.summary("one")["flows"][0];
        assert!(row["delivered_bytes"].as_u64().unwrap() >= *delivered, "{flow}: {row}");
        assert_eq!((&row["outcome"], &row["cc"]), (&serde_json::Value::Null, &(*cc).into()), "{row}");
        assert_eq!(row["transport"], transport);
        // With all headers.
        assert!(row["sent_bytes"].as_u64() > row["delivered_bytes"].as_u64(), "{row}");
        // The captures are among them.
        for name in desk.names("one").iter().filter(|name| *name != "audit.json") {
            let read = |run: &str| std::fs::read(desk.path().join(run).join(name)).unwrap();
            assert!(read("one") == read("two"), "{flow}: {name} differs");
        }
    }
}

#[test]
fn quic_carries_the_applications_of_a_model_and_repeats_every_byte() {
    let flows = [
        ("app = \"transfer\"\nsize = \"1MB\"", 1_000_000, "cubic"),
        ("app = \"web\"", 10_000, "cubic"),
        ("app = \"bulk\"\nstop = \"10s\"\ncc = \"bbr\"", 5_000_000, "bbr"),
    ];
    carries_and_repeats("stack:quinn", "quic", &flows);
}

#[test]
fn sctp_carries_the_applications_of_a_model_and_repeats_every_byte() {
    if let Err(reason) = built("sctp") {
        return warpline_skip::skip("sctp", reason);
    }
    let flows = [
        ("app = \"transfer\"\nsize = \"1MB\"", 1_000_000, "rfc2581"),
        ("app = \"web\"", 10_000, "rfc2581"),
        ("app = \"bulk\"\nstop = \"10s\"\ncc = \"hstcp\"", 4_000_000, "hstcp"),
    ];
    carries_and_repeats("stack:sctp", "sctp", &flows);
}

/// Where all lost packets carried data, each was sent again.
#[test]
fn packets_of_sctp_that_are_sent_again_are_counted() {
    if let Err(reason) = built("sctp") {
        return warpline_skip::skip("sctp", reason);
    }
    let desk = Desk::new();
    desk.write("sctp.toml", &scenario("stack:sctp", "stack:sctp", "app = \"transfer\"\nsize = \"1MB\""));
    desk.warpline(&["run", "sctp.toml", "--out", "run"]).fine();
    let row = &desk.summary("run")["flows"][0];
    let [again, lost] = ["retransmitted_packets", "lost_packets"].map(|key| row[key].as_u64().unwrap());
    assert!(again > 0 && lost > 0 && again < 4 * lost, "{row}");
}

#[test]
fn quic_has_the_congestion_controls_of_warpline_if_it_is_told() {
    let desk = Desk::new();
    let text = scenario("stack:quinn", "stack:quinn", "app = \"bulk\"\ncc = \"bbr3\"");
    desk.write("quic.toml", &text);
    let wrong = desk.warpline(&["check", "quic.toml"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("allowed: cubic, newreno, bbr"), "{wrong:?}");
    let ours = "\"stack:quinn\"\ncongestion_controls = \"warpline\"";
    desk.write("quic.toml", &text.replace("\"stack:quinn\"", ours));
    desk.warpline(&["run", "quic.toml", "--out", "run"]).fine();
    let row = &desk.summary("run")["flows"][0];
    // CUBIC has some 6 Mbit/s here; BBR does not mind half a percent of loss.
    assert!(row["goodput_bps"].as_f64().unwrap() > 8e6 && row["cc"] == "bbr3", "{row}");
}

#[test]
fn stacks_that_speak_different_protocols_do_not_talk() {
    let desk = Desk::new();
    for (from, to, names) in [
        ("model", "stack:quinn", ["TCP", "QUIC"]),
        ("stack:smoltcp", "stack:quinn", ["TCP", "QUIC"]),
        ("model", "stack:sctp", ["TCP", "SCTP"]),
        ("stack:sctp", "stack:smoltcp", ["SCTP", "TCP"]),
        ("stack:sctp", "stack:quinn", ["SCTP", "QUIC"]),
    ] {
        desk.write("mixed.toml", &scenario(from, to, "app = \"bulk\""));
        let wrong = desk.warpline(&["check", "mixed.toml"]);
        let said =
            format!("`a` speaks {} and `b` speaks {}: no flow can go between them", names[0], names[1]);
        for part in ["mixed.toml:", &said, "at both ends or at none of them"] {
            assert!(wrong.code == Some(2) && wrong.stderr.contains(part), "{part}: {wrong:?}");
        }
        for name in names.iter().filter(|name| **name != "TCP") {
            assert!(wrong.stderr.contains(&format!("which speaks {name}")), "{wrong:?}");
        }
    }
}

#[test]
fn what_a_stack_cannot_do_is_said_with_its_place() {
    let desk = Desk::new();
    for (flow, parts) in [
        ("cc = \"bbr\"", ["stacks.toml:19:", "has no congestion control `bbr`", "allowed: cubic, reno"]),
        ("app = \"cbr\"\nrate = \"1Mbit/s\"", ["stacks.toml:19:", "carries TCP only", "transport"]),
        ("max_rate = \"1Mbit/s\"", ["stacks.toml:19:", "`max_rate` is for model hosts", "stack:smoltcp"]),
        ("app = \"echo\"\nport = 7", ["stacks.toml:19:", "service for programs", "echo"]),
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

/// Of so many connections, some have the same local port, to different ports at the other end.
#[test]
fn many_flows_between_two_stacks_are_told_apart() {
    let desk = Desk::new();
    let one = "[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"transfer\"\nsize = \"10KB\"\n\n";
    let text = scenario("stack:smoltcp", "stack:smoltcp", "app = \"transfer\"\nsize = \"10KB\"");
    desk.write("many.toml", &(text + "\n" + &one.repeat(399)));
    desk.warpline(&["run", "many.toml", "--out", "run"]).fine();
    let summary = desk.summary("run");
    let flows = summary["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 400);
    for flow in flows {
        assert_eq!(
            (&flow["transfers_completed"], &flow["delivered_bytes"]),
            (&1.into(), &10_000.into()),
            "{flow}"
        );
    }
}

/// The directory where `make stacks` has built this stack and tests find it; or the reason why it is not there.
fn built(stack: &str) -> Result<std::path::PathBuf, String> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_warpline"));
    let directory = program.ancestors().nth(2).map(|target| target.join("stacks")).unwrap_or_default();
    match directory.join(format!("{stack}.so")).exists() {
        true => Ok(directory),
        false => Err(format!("{} has no {stack}.so: make stacks", directory.display())),
    }
}

fn transfers_to_and_from_all(stack: &str, cc: &str) {
    if let Err(reason) = built(stack) {
        return warpline_skip::skip(stack, reason);
    }
    let desk = Desk::new();
    let endpoint = format!("stack:{stack}");
    let stacks = ["model", "stack:smoltcp", &endpoint];
    let arguments = [&["study", "stacks"][..], &stacks, &["--bytes", "1000000", "--json"]].concat();
    let matrix: serde_json::Value = serde_json::from_str(&desk.warpline(&arguments).fine().stdout).unwrap();
    assert_eq!(matrix["rows"].as_array().unwrap().len(), 27);
    for application in ["app = \"web\"", "app = \"bulk\""] {
        desk.write("stacks.toml", &scenario(&endpoint, &endpoint, application));
        for out in ["one", "two"] {
            desk.warpline(&["run", "stacks.toml", "--out", out, "--force"]).fine();
        }
        let flow = &desk.summary("one")["flows"][0];
        assert!(flow["delivered_bytes"].as_u64().unwrap() > 1_000_000, "{flow}");
        assert_eq!((&flow["outcome"], &flow["cc"]), (&serde_json::Value::Null, &cc.into()), "{flow}");
        for name in desk.names("one").iter().filter(|name| *name != "audit.json") {
            let read = |run: &str| std::fs::read(desk.path().join(run).join(name)).unwrap();
            assert!(read("one") == read("two"), "{application}: {name} differs");
        }
    }
}

#[test]
fn lwip_transfers_to_and_from_all() {
    transfers_to_and_from_all("lwip", "reno");
}

#[test]
fn bsd_transfers_to_and_from_all() {
    transfers_to_and_from_all("bsd", "reno");
}

#[test]
fn netstack_transfers_to_and_from_all() {
    transfers_to_and_from_all("netstack", "reno");
}

/// The same object, as a user would bring one.
#[test]
fn a_stack_of_ones_own_is_a_shared_object() {
    let directory = match built("lwip") {
        Ok(directory) => directory,
        Err(reason) => return warpline_skip::skip("lwip", reason),
    };
    let desk = Desk::new();
    std::fs::copy(directory.join("lwip.so"), desk.path().join("mine.so")).unwrap();
    let text = scenario("stack:object", "model", "app = \"transfer\"\nsize = \"100KB\"");
    let text = text.replace("\"stack:object\"", "\"stack:object\"\nlibrary = \"./mine.so\"");
    desk.write("stacks.toml", &text);
    desk.warpline(&["run", "stacks.toml", "--out", "run"]).fine();
    assert_eq!(desk.summary("run")["flows"][0]["delivered_bytes"], 100_000);
    desk.write("stacks.toml", &text.replace("mine.so", "other.so"));
    let wrong = desk.warpline(&["run", "stacks.toml", "--out", "other"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("host a:") && wrong.stderr.contains("other.so"), "{}", wrong.stderr);
}

/// A stack whose assertion fails with the first packet, in a host beside others.
const FAILING: &str = "\
#include <stdlib.h>
#include \"warpline_stack.h\"
static struct warpline_callbacks callbacks;
uint32_t warpline_stack_abi(void) { return WARPLINE_STACK_ABI; }
uint32_t warpline_stack_flags(void) { return 0; }
void *warpline_stack_new(uint64_t now, const struct warpline_config *config, const struct warpline_callbacks *given)
{ (void)now; (void)config; callbacks = *given; return &callbacks; }
void warpline_stack_free(void *host) { (void)host; }
void warpline_stack_packet(void *host, uint64_t now, const void *packet, size_t len)
{ (void)host; (void)now; (void)packet; (void)len; callbacks.fail(callbacks.context, \"no packet can come\"); }
void warpline_stack_timeout(void *host, uint64_t now) { (void)host; (void)now; abort(); }
uint64_t warpline_stack_deadline(void *host, uint64_t now) { (void)host; (void)now; return WARPLINE_NEVER; }
int warpline_stack_listen(void *host, uint64_t now, uint16_t port, const char *cc) { (void)host; (void)now; (void)port; (void)cc; return 0; }
void warpline_stack_unlisten(void *host, uint64_t now, uint16_t port) { (void)host; (void)now; (void)port; }
int64_t warpline_stack_connect(void *host, uint64_t now, const struct warpline_address *remote, const char *cc, struct warpline_address *local)
{ (void)host; (void)now; (void)remote; (void)cc; (void)local; return WARPLINE_FAILED; }
size_t warpline_stack_write(void *host, uint64_t now, uint64_t socket, const void *bytes, size_t len)
{ (void)host; (void)now; (void)socket; (void)bytes; (void)len; return 0; }
size_t warpline_stack_read(void *host, uint64_t now, uint64_t socket, void *buffer, size_t len)
{ (void)host; (void)now; (void)socket; (void)buffer; (void)len; return 0; }
void warpline_stack_close(void *host, uint64_t now, uint64_t socket) { (void)host; (void)now; (void)socket; }
void warpline_stack_abort(void *host, uint64_t now, uint64_t socket) { (void)host; (void)now; (void)socket; }
int warpline_stack_info(void *host, uint64_t socket, struct warpline_info *info) { (void)host; (void)socket; (void)info; return WARPLINE_FAILED; }
";

/// Compiles a stack into `failing.so` on the desk.
fn compile(desk: &Desk, text: &str) {
    let source = desk.write("failing.c", text);
    let native = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../stacks/native");
    let mut compiler = std::process::Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    let options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", "failing.so", "-I"];
    let compiled = compiler.args(options).arg(native).arg(source).current_dir(desk.path()).status().unwrap();
    assert!(compiled.success());
}

#[test]
fn a_crash_ends_its_host_only_and_is_told() {
    let desk = Desk::new();
    let text = scenario("model", "stack:object", "app = \"transfer\"\nsize = \"100KB\"");
    let more = "[[link]]\nbetween = [\"b\", \"c\"]\nrate = \"10Mbit/s\"\nrecord = [\"pcap\"]\n\n[[flow]]\nname = \"other\"\nfrom = \"a\"\nto = \"c\"\n";
    let text = text.replace("\"stack:object\"", "\"stack:object\"\nlibrary = \"failing.so\"") + more;
    desk.write("stacks.toml", &text);
    for (number, (crash, what)) in [
        ("volatile int *nowhere = 0; *nowhere = 1;", "it used memory that is not there, SIGSEGV"),
        ("abort();", "abort, SIGABRT"),
    ]
    .into_iter()
    .enumerate()
    {
        compile(&desk, &FAILING.replace("callbacks.fail(callbacks.context, \"no packet can come\");", crash));
        let out = format!("run-{number}");
        let run = desk.warpline(&["run", "stacks.toml", "--out", &out]);
        assert_eq!(run.code, Some(1), "{run:?}");
        // The SYN arrives after 10 ms and its time on the wire.
        let told = format!("the stack of host b has failed: it crashed at 0.010048000s of the run: {what}");
        assert!(run.stderr.contains(&told), "{run:?}");
        // What happened until then is kept, and the other host's flow goes on.
        let flows = &desk.summary(&out)["flows"];
        assert_eq!(flows[0]["delivered_bytes"], 0);
        assert!(flows[1]["delivered_bytes"].as_u64().unwrap() > 1_000_000, "{flows}");
        assert!(
            desk.path().join(&out).join("b-c.pcapng").exists(),
            "{:?}",
            std::fs::read_dir(desk.path().join(&out))
        );
    }
}

#[test]
fn a_failed_assertion_ends_its_host_only_and_is_told() {
    let desk = Desk::new();
    compile(&desk, FAILING);
    let text = scenario("model", "stack:object", "app = \"transfer\"\nsize = \"100KB\"");
    let more = "[[link]]\nbetween = [\"b\", \"c\"]\nrate = \"10Mbit/s\"\n\n[[flow]]\nname = \"other\"\nfrom = \"a\"\nto = \"c\"\n";
    let text = text.replace("\"stack:object\"", "\"stack:object\"\nlibrary = \"failing.so\"") + more;
    desk.write("stacks.toml", &text);
    let run = desk.warpline(&["run", "stacks.toml", "--out", "run"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("the stack of host b has failed: no packet can come"), "{run:?}");
    let flows = &desk.summary("run")["flows"];
    assert_eq!(flows[0]["delivered_bytes"], 0);
    assert!(flows[1]["delivered_bytes"].as_u64().unwrap() > 1_000_000, "{flows}");
}

/// Programs in a guest use services of stacks: an echo of more than any buffer holds, and a page.
#[test]
fn services_of_a_stack_answer_programs() {
    if let Err(reason) = warpline_guest::Kernel::find() {
        return warpline_skip::skip("program", reason);
    }
    let echo = "import socket, sys, threading\ns = socket.create_connection((sys.argv[1], 7))\ndata = bytes(range(256)) * 2000\n\
        def send():\n    s.sendall(data)\n    s.shutdown(socket.SHUT_WR)\nthreading.Thread(target=send).start()\n\
        back = b''\nwhile part := s.recv(65536):\n    back += part\nsys.exit(back != data)\n";
    for stack in ["stack:smoltcp", "stack:lwip", "stack:netstack", "stack:bsd"] {
        let name = stack.trim_start_matches("stack:");
        if let (true, Err(reason)) = (name != "smoltcp", built(name)) {
            warpline_skip::skip(name, reason);
            continue;
        }
        let desk = Desk::new();
        desk.write("echo.py", echo);
        desk.write(
            "services.toml",
            &format!(
                "duration = \"60s\"\nuntil = [\"page exits\", \"echo exits\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"5ms\"\n\
                 [[host]]\nname = \"b\"\nendpoint = \"{stack}\"\n[[host]]\nname = \"a\"\nendpoint = \"guest\"\n\
                 [[host.program]]\nname = \"page\"\ncommand = \"curl --silent --show-error --fail http://{{b}}/bytes/200000 | wc -c\"\n\
                 [[host.program]]\nname = \"echo\"\ncommand = [\"python3\", \"echo.py\", \"{{b}}\"]\n\
                 [[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"http\"\nport = 80\n[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"echo\"\nport = 7\n"
            ),
        );
        let run = desk.warpline(&["run", "services.toml", "--out", "run"]);
        assert_eq!(run.code, Some(0), "{stack}: {run:?}");
        let page = std::fs::read_to_string(desk.path().join("run/programs/a.page.stdout")).unwrap();
        assert_eq!(page.trim(), "200000", "{stack}");
    }
}
