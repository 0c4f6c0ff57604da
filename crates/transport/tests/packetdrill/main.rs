//! TCP packet by packet: scripts in packetdrill's notation (`script.rs` describes it), each of which shows one behaviour.
//!
//! What they expect is what Linux does, as far as its RFC allows it; `docs/src/tcp.md` has the rest. The scripts are our own.

mod machine;
mod script;

use std::path::Path;

use machine::run;

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packetdrill/scripts");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".pkt"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let failures: Vec<_> = names
        .iter()
        .filter_map(|name| run(name, &std::fs::read_to_string(folder.join(name)).unwrap()).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), names.len(), failures.join("\n"));
}

/// What a script that does not hold says.
fn told(text: &str) -> String {
    run("a.pkt", text).unwrap_err().to_string()
}

const OPENED: &str = "\
--timestamps=false
+0 < S 0:0(0) win 1000 <mss 1000,sackOK,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 257
+0 accept(3, ..., ...) = 4
";

#[test]
fn what_does_not_hold_is_told_with_its_line() {
    let open = |rest: &str| told(&format!("{OPENED}{rest}"));
    assert_eq!(
        open("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1002(1001) ack 1"),
        "a.pkt, line 7:\n  expected: +0 > P. 1:1002(1001) ack 1\n  came:     0.100000 > P. 1:1001(1000) ack 1 win 32768"
    );
    assert_eq!(
        open("+.5 < . 1:1001(1000) ack 1 win 257\n+.1 > . 1:1(0) ack 1001"),
        "a.pkt, line 7:\n  expected: +.1 > . 1:1(0) ack 1001\n  came:     0.600000 > . 1:1(0) ack 1001 win 32768"
    );
    assert_eq!(
        open("+0 > . 1:1(0) ack 1"),
        "a.pkt, line 6:\n  expected: +0 > . 1:1(0) ack 1\n  came:     nothing by 0.100000; next timer: none"
    );
    assert_eq!(
        open("+0 assert cwnd == 11"),
        "a.pkt, line 6:\n  expected: +0 assert cwnd == 11\n  came:     cwnd is 10"
    );
    assert!(
        open("+0 write(4, ..., 1000) = 1000")
            .ends_with("expected: no more packets\n  came:     0.100000 > P. 1:1001(1000) ack 1 win 32768")
    );
    assert!(open("+0 write(4, ..., 1000) = 999").ends_with("came:     1000"));
}

#[test]
fn what_is_no_script_is_told_with_its_line() {
    for (text, message) in [
        ("+0 < X 0:0(0) win 1", "`X` is no flag"),
        ("\n+0 < S 0:1(0) win 1", "line 2"),
        ("+0 < . 1:2(1) ack", "nothing after `ack`"),
        ("+x < . 1:1(0)", "`x` is no time in seconds"),
        ("+0 < . 1:1(0) ack 1 <sack 1>", "no `:` in a SACK block"),
        ("+0 nothing", "neither a packet, a call nor an assertion"),
        ("--mss=many", "`many` is no value of `mss`"),
        ("--nothing=1", "TCP has no option `nothing`"),
        ("+0 assert cwnd", "`cwnd` is no comparison of two values"),
    ] {
        assert!(told(text).contains(message), "{}", told(text));
    }
}
