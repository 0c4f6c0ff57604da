//! What is forwarded while a shell has a route out: tests with packets between namespaces of our own.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::*;
use crate::netlink::{Netlink, VethEnd};
use crate::netns::NetNs;
use crate::nftables;
use crate::private::PrivateDirectory;
use crate::privilege;
use crate::registry::Session;

/// A namespace surrounded by others: two of strangers, and the inside of a shell.
struct World {
    base: NetNs,
    /// Each with its address.
    around: [(NetNs, Ipv4Addr); 3],
}

const FIRST: usize = 0;
const SECOND: usize = 1;
const INSIDE: usize = 2;

impl World {
    /// `None`, with a message, if this machine cannot have it.
    fn new() -> Option<Self> {
        if !privilege::is_privileged() || crate::start::in_path(&["nft"]).is_none() {
            warpline_skip::skip("root", "this needs root's privileges for networks, and nft");
            return None;
        }
        let base = NetNs::create().unwrap();
        let wire = |name: &str, number: u8, [near, far]: [Ipv4Addr; 2]| {
            let other = NetNs::create().unwrap();
            let mac = |end| [2, 0, 0, 0, number, end];
            let wire = || {
                let mut netlink = Netlink::open()?;
                let far = VethEnd { name: "eth0", mac: mac(2), namespace: Some(other.fd()) };
                netlink.add_veth(&VethEnd { name, mac: mac(1), namespace: None }, &far, 1500)?;
                netlink.set_up(name, true)?;
                netlink.add_address(name, near.into(), 24)
            };
            base.within(wire).unwrap().unwrap();
            let set_up = || {
                let mut netlink = Netlink::open()?;
                netlink.set_up("eth0", true)?;
                netlink.add_address("eth0", far.into(), 24)?;
                netlink.add_route(Ipv4Addr::UNSPECIFIED.into(), 0, "eth0", Some(near.into()))
            };
            other.within(set_up).unwrap().unwrap();
            (other, far)
        };
        let around = [("a0", 1, [10, 1, 0]), ("b0", 2, [10, 2, 0]), ("wl0", 3, [100, 64, 0])].map(
            |(name, number, [a, b, c])| wire(name, number, [1, 2].map(|end| Ipv4Addr::new(a, b, c, end))),
        );
        Some(World { base, around })
    }

    /// A session that starts from the namespace in the middle, with its file in this directory, if there is one.
    fn session(&self, directory: Option<PrivateDirectory>) -> Entry {
        let session =
            Session { id: "1-2".to_owned(), base: self.base.inode().unwrap(), ..Session::default() };
        Entry::of(session, directory)
    }

    /// Tries to open the route from the inside, which is behind this interface, to the outside.
    fn try_open(&self, entry: &mut Entry, interface: &str) -> io::Result<()> {
        let networks = [(Ipv4Addr::new(100, 64, 0, 0).into(), 16)];
        let way = Way { networks: &networks, interface, machine: None, own: false };
        self.base.within(|| masquerade(entry, &way)).unwrap()
    }

    /// Opens the route from the inside to the outside.
    fn open(&self) -> Entry {
        let mut entry = self.session(None);
        self.try_open(&mut entry, "wl0").unwrap();
        entry
    }

    fn set(&self, value: &str) {
        self.base.within(|| Setting::ForwardIpv4.write(value)).unwrap().unwrap();
    }

    /// Sends datagrams from one to another until one arrives. Returns the source that the receiver sees, and whether its answer arrives.
    ///
    /// A new interface takes packets a second after its other end is up, and on a busy machine later.
    fn passes(&self, from: usize, to: usize) -> (SocketAddr, bool) {
        self.send(from, to, 100).expect("no datagram arrived within 30 s")
    }

    /// Whether none of three datagrams from one to another arrives. Both must have been reached or have sent before.
    fn is_closed(&self, from: usize, to: usize) -> bool {
        self.send(from, to, 3).is_none()
    }

    /// Sends up to so many datagrams. `None` if none arrives.
    fn send(&self, from: usize, to: usize, tries: usize) -> Option<(SocketAddr, bool)> {
        let socket = |at: usize| {
            let socket = self.around[at].0.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
            let socket = socket.unwrap().unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket
        };
        let (sends, hears) = (socket(from), socket(to));
        let port = hears.local_addr().unwrap().port();
        let mut bytes = [0; 8];
        for _ in 0..tries {
            sends.send_to(b"hello", (self.around[to].1, port)).unwrap();
            if let Ok((_, source)) = hears.recv_from(&mut bytes) {
                let answered = (0..10).any(|_| {
                    hears.send_to(b"back", source).unwrap();
                    sends.recv_from(&mut bytes).is_ok()
                });
                return Some((source, answered));
            }
        }
        None
    }
}

#[test]
fn a_machine_that_forwarded_nothing_forwards_the_shell_s_packets_only() {
    let Some(world) = World::new() else { return };
    // All wires are up.
    world.set("1");
    assert!(world.passes(FIRST, SECOND).1 && world.passes(INSIDE, SECOND).1);
    world.set("0");
    let entry = world.open();
    let (source, answered) = world.passes(INSIDE, SECOND);
    assert_eq!((source.ip().to_string().as_str(), answered), ("10.2.0.1", true));
    assert!(world.is_closed(FIRST, SECOND), "strangers' packets are forwarded");
    assert!(world.is_closed(FIRST, INSIDE), "a stranger gets to the inside");
    assert_eq!(entry.session.settings, [(Setting::ForwardIpv4, "0".to_owned())]);
    assert_eq!(entry.session.tables, ["ip warpline_1_2"]);
}

#[test]
fn a_chain_that_drops_what_is_forwarded_is_named_and_what_is_said_helps() {
    let Some(world) = World::new() else { return };
    world.set("1");
    assert!(world.passes(INSIDE, SECOND).1);
    let _entry = world.open();
    let told = || world.base.within(|| obstacle("wl0")).unwrap();
    let add = |rules: &str| world.base.within(|| nftables::run(rules)).unwrap().unwrap();
    assert_eq!(told(), None);
    let chains = ["input", "forward"]
        .map(|hook| format!("chain {hook}s {{ type filter hook {hook} priority filter; policy drop; }}\n"));
    add(&format!("table ip others {{\n{}}}\n", chains.concat()));
    assert!(world.is_closed(INSIDE, SECOND));
    let text = told().unwrap();
    assert!(text.contains("ip others forwards") && !text.contains("inputs"), "{text}");
    for rule in text.split("nft ").skip(1) {
        add(rule.trim_end_matches("; "));
    }
    assert_eq!(told(), None);
    assert!(world.passes(INSIDE, SECOND).1);
}

#[test]
fn only_chains_that_drop_forwarded_ipv4_packets_count() {
    let chain = |family: &str, hook: &str, policy: &str| {
        serde_json::json!({"chain": {
            "family": family, "table": "filter", "name": "c", "handle": 1, "type": "filter", "hook": hook, "prio": 0, "policy": policy,
        }})
    };
    let listed = serde_json::json!({"nftables": [
        {"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
        {"chain": {"family": "ip", "table": "filter", "name": "DOCKER", "handle": 2}},
        chain("ip", "forward", "accept"), chain("ip", "input", "drop"), chain("ip6", "forward", "drop"),
        chain("ip", "forward", "drop"), chain("inet", "forward", "drop"),
    ]});
    assert_eq!(
        dropping(&listed.to_string()),
        ["ip", "inet"].map(|family| [family, "filter", "c"].map(str::to_owned))
    );
    assert!(dropping("no JSON").is_empty());
}

#[test]
fn a_table_is_on_record_before_it_is_made() {
    let Some(world) = World::new() else { return };
    let parent = tempfile::tempdir().unwrap();
    let directory = PrivateDirectory::open(parent.path(), "warpline").unwrap();
    let mut entry = world.session(Some(directory));
    // nft refuses it, so that nothing can have been recorded afterwards.
    assert!(world.try_open(&mut entry, "no\"name").is_err());
    let text = std::fs::read_to_string(parent.path().join("warpline/1-2.json")).unwrap();
    assert!(text.contains("ip warpline_1_2"), "{text}");
}

#[test]
fn a_machine_that_forwarded_goes_on_and_the_inside_stays_closed() {
    let Some(world) = World::new() else { return };
    world.set("1");
    let entry = world.open();
    assert!(world.passes(FIRST, SECOND).1, "the machine's own forwarding is broken");
    assert!(world.passes(INSIDE, SECOND).1);
    assert!(world.is_closed(FIRST, INSIDE), "a stranger gets to the inside");
    // Only the table has to be removed.
    assert!(entry.session.settings.is_empty());
    world.base.within(|| nftables::remove(&entry.session.tables[0])).unwrap().unwrap();
    assert!(world.passes(FIRST, INSIDE).1);
}
