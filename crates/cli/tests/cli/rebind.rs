//! A NAT in front of a host that changes its bindings (`rebind`), with programs on live hosts and on guests.

use std::collections::BTreeSet;
use std::fs;

use crate::live::alone;
use crate::shell::able;
use crate::support::Desk;

/// Sends a datagram every tenth of a second from one port, and counts the echoes.
const CLIENT: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4000))
s.settimeout(0.5)
got = 0
for number in range(40):
    s.sendto(b"x", (sys.argv[1], 9999))
    try:
        s.recvfrom(2000)
        got += 1
    except TimeoutError:
        pass
    time.sleep(0.1)
print(got)
"#;

/// Answers datagrams, and prints where they come from when that changes.
const SERVER: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9999))
print("up", flush=True)
last = None
while True:
    data, place = s.recvfrom(2000)
    if place != last:
        print(*place, flush=True)
    last = place
    s.sendto(data, place)
"#;

fn scenario(kind: &str, clock: &str, more: &str) -> String {
    format!(
        r#"duration = "60s"
until = ["client exits"]
clock = {{ mode = "{clock}" }}
link = [{{ between = ["a", "b"], rate = "10Mbit/s", delay = "5ms", record = ["packets"] }}]
[[host]]
name = "a"
endpoint = "{kind}"
rebind = {{ first = "1s", every = "1s"{more} }}
[[host.program]]
name = "client"
command = ["python3", "client.py", "{{b}}"]
[[host]]
name = "b"
endpoint = "{kind}"
[[host.program]]
name = "server"
command = ["python3", "server.py"]
ready = "prints up"
expect = "running"
"#
    )
}

/// Runs it, and returns where the server's datagrams came from, and how many echoes the client got.
fn places(desk: &Desk, text: &str, out: &str) -> (Vec<(String, u16)>, u32) {
    desk.write("client.py", CLIENT);
    desk.write("server.py", SERVER);
    desk.write("nat.toml", text);
    desk.warpline(&["run", "nat.toml", "--out", out]).fine();
    let printed = |name: &str| fs::read_to_string(desk.path().join(out).join("programs").join(name)).unwrap();
    let place = |line: &str| {
        let (address, port) = line.split_once(' ').unwrap();
        (address.to_owned(), port.parse().unwrap())
    };
    let places = printed("b.server.stdout").lines().skip(1).map(place).collect();
    (places, printed("a.client.stdout").trim().parse().unwrap())
}

#[test]
fn the_ports_of_a_live_host_change_and_what_comes_back_finds_it() {
    if !able(false, &["python3"]) {
        return;
    }
    let _turn = alone();
    let (places, echoes) = places(&Desk::new(), &scenario("live", "real", ""), "out");
    // The client's run of four seconds has at least three changes, each of which may meet an echo under way.
    assert!(places.len() >= 4 && echoes >= 30, "{places:?} {echoes}");
    assert_eq!(places[0], ("10.0.0.1".to_owned(), 4000));
    assert!(places.iter().all(|(address, _)| address == "10.0.0.1"), "{places:?}");
    let ports: BTreeSet<u16> = places.iter().map(|(_, port)| *port).collect();
    assert_eq!(ports.len(), places.len());
}

#[test]
fn the_address_of_a_guest_changes_the_same_way_in_each_run() {
    if !able(false, &["python3", "linux.uml"]) {
        return;
    }
    let desk = Desk::new();
    let text = scenario("guest", "virtual", ", addresses = \"192.0.2.128/25\"");
    let first = places(&desk, &text, "first");
    assert!(first.0.len() == 5 && first.1 >= 36, "{first:?}");
    assert!(first.0[1..].iter().all(|(address, _)| address.starts_with("192.0.2.")), "{first:?}");
    assert_eq!(places(&desk, &text, "second"), first);
    for table in ["packets.parquet", "flows.parquet"] {
        let bytes = |out: &str| fs::read(desk.path().join(out).join(table)).unwrap();
        assert!(bytes("first") == bytes("second"), "{table}");
    }
}

#[test]
fn a_nat_that_cannot_be_is_refused() {
    let desk = Desk::new();
    for (more, part) in [
        (", addresses = \"192.0.2.1\"", "192.0.2.1 has too few addresses that no node has: 1"),
        (", addresses = \"10.0.0.0/31\"", "10.0.0.0/31 has too few"),
        (", addresses = \"192.0.2.0/33\"", "192.0.2.0/24"),
        (", ports = 3", "unknown key `ports`"),
    ] {
        desk.write("nat.toml", &scenario("live", "real", more));
        let answer = desk.warpline(&["check", "nat.toml"]);
        assert!(answer.code == Some(2) && answer.stderr.contains(part), "{answer:?}");
    }
    desk.write("nat.toml", &scenario("live", "real", "").replace("every = \"1s\"", "every = \"0s\""));
    let answer = desk.warpline(&["check", "nat.toml"]);
    assert!(answer.code == Some(2) && answer.stderr.contains("`every` is out of range"), "{answer:?}");
}
