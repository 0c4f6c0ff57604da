//! Machines outside: network namespaces that stand for them, wired to interfaces of a namespace that stands for this machine. They have their own kernels'
//! ARP, neighbour discovery, offloads and routes. Needs root and the programs; otherwise the tests are skipped.

use std::fs;
use std::process::{Child, Command, Stdio};

use warpline_live::netns::NetNs;
use warpline_live::offload::Merging;

use crate::killed::kill_both;
use crate::live::{alone, kept_pace, shortest};
use crate::shell::able;
use crate::support::{Answer, Desk, pause, wait_until};

/// A network namespace, held by a process.
struct Space(Child);

impl Space {
    fn new() -> Space {
        let mut command = Command::new("unshare");
        let holder = command.args(["--net", "sleep", "1800"]).stdin(Stdio::null()).stdout(Stdio::null());
        let space = Space(holder.spawn().unwrap());
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        while of(&space.pid()) == of("self") {
            pause();
        }
        space.does("ip link set lo up");
        space
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The words before a command that runs there.
    fn enter(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.0.id())]
    }

    fn command(&self, line: &str) -> Command {
        let [enter, net] = self.enter();
        let mut command = Command::new(enter);
        command.args([&net, "sh", "-c", line]);
        command
    }

    /// Runs a command line there.
    fn try_to(&self, line: &str) -> Answer {
        Answer::from(self.command(line).output().unwrap())
    }

    /// The same, which must succeed. Returns what it printed.
    #[track_caller]
    fn does(&self, line: &str) -> String {
        let answer = self.try_to(line);
        assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
        answer.stdout
    }

    /// Wires an interface of this namespace to one of another: both are up, and have all their offloads.
    fn wire(&self, own: &str, other: &Space, theirs: &str) {
        let (here, there) = (self.pid(), other.pid());
        let add = format!("ip link add {own} netns {here} type veth peer name {theirs} netns {there}");
        assert!(Command::new("sh").args(["-c", &add]).status().unwrap().success(), "{add}");
        // Without a link-local address: it would be tested for a while.
        self.does(&format!("ip link set {own} addrgenmode none up"));
        other.does(&format!("ip link set {theirs} up"));
        self.wait_for(own);
    }

    /// Waits until the other end of an interface is up, too.
    fn wait_for(&self, interface: &str) {
        while !self.does(&format!("ip link show {interface}")).contains("state UP") {
            pause();
        }
    }

    /// Whether an interface merges what it receives.
    fn merges(&self, interface: &str) -> bool {
        let namespace = NetNs::of_process(self.0.id()).unwrap();
        namespace.within(|| Merging::Gro.is_on(interface)).unwrap().unwrap()
    }

    /// What can be seen of an interface: its flags, MTU, promiscuity and offloads.
    fn look(&self, interface: &str) -> String {
        let link = self.does(&format!("ip -d link show {interface}; ip addr show {interface}; ip route"));
        format!("{link}gro {}", self.merges(interface))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This machine, with eth1 and eth2, and a machine outside behind each.
struct World {
    desk: Desk,
    machine: Space,
    left: Space,
    right: Space,
}

impl World {
    fn new() -> World {
        let (machine, left, right) = (Space::new(), Space::new(), Space::new());
        machine.wire("eth1", &left, "eth0");
        machine.wire("eth2", &right, "eth0");
        let namespace = NetNs::of_process(machine.0.id()).unwrap();
        for interface in ["eth1", "eth2"] {
            namespace.within(|| Merging::Gro.set(interface, true)).unwrap().unwrap();
        }
        World { desk: Desk::new(), machine, left, right }
    }

    /// Gives a machine an IPv4 and an IPv6 address, with their networks, on an interface, and gateways.
    fn place(space: &Space, interface: &str, addresses: [&str; 2], gateways: [&str; 2]) {
        for (address, gateway) in addresses.into_iter().zip(gateways) {
            // An address that is tested first would not be there at once.
            let nodad = if address.contains(':') { "nodad" } else { "" };
            space.does(&format!("ip addr add {address} dev {interface} {nodad}"));
            if !gateway.is_empty() {
                space.does(&format!("ip route add default via {gateway}"));
            }
        }
    }

    /// The program on this machine.
    fn warpline(&self, arguments: &[&str]) -> Command {
        let enter = self.machine.enter();
        self.desk.program_in(&enter.each_ref().map(String::as_str), arguments)
    }

    fn begin(&self, scenario: &str) -> Run<'_> {
        self.desk.write("outside.toml", scenario);
        let mut command = self.warpline(&["run", "outside.toml", "--out", "out", "--force"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Run { world: self, child }
    }

    /// Why a run cannot begin.
    fn refused(&self, scenario: &str) -> String {
        self.desk.write("outside.toml", scenario);
        let answer = Answer::from(self.warpline(&["run", "outside.toml", "--out", "no"]).output().unwrap());
        assert_ne!(answer.code, Some(0), "{answer:?}");
        assert!(self.desk.names("no").is_empty(), "{:?}", self.desk.names("no"));
        answer.stderr
    }
}

/// A run in progress.
struct Run<'a> {
    world: &'a World,
    child: Child,
}

impl Run<'_> {
    /// Waits until a command succeeds, and returns what it then prints.
    #[track_caller]
    fn until(&mut self, space: &Space, line: &str) -> String {
        for _ in 0..600 {
            let answer = space.try_to(line);
            if answer.code == Some(0) {
                return answer.stdout;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "the run has ended: {:?}", self.errors());
            pause();
        }
        panic!("{line}: {:?}", space.try_to(line));
    }

    fn errors(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }

    /// Ends it by Ctrl-C, and returns its summary.
    fn end(mut self) -> serde_json::Value {
        crate::interrupt::kill(&self.child, "-INT");
        assert_eq!(self.child.wait().unwrap().code(), Some(130), "{}", self.errors());
        self.world.desk.summary("out")
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// left - r - right. `more` are further keys of the hosts and of the links.
fn scenario(hosts: [&str; 2], links: &str) -> String {
    let [left, right] = hosts;
    format!(
        r#"name = "outside"
duration = "600s"
clock = {{ mode = "real" }}
link = [
  {{ between = ["left", "r"], rate = "100Mbit/s", delay = "10ms" {links} }},
  {{ between = ["r", "right"], rate = "10Mbit/s", delay = "5ms" }},
]
[[host]]
name = "left"
endpoint = "interface"
{left}
[[host]]
name = "right"
endpoint = "interface"
{right}
"#
    )
}

const LEFT: &str = r#"device = "eth1"
address = "192.0.2.7"
address6 = "2001:db8:1::7"
gateway = "192.0.2.1"
gateway6 = "2001:db8:1::1""#;
const RIGHT: &str = r#"device = "eth2"
address = "198.51.100.7"
address6 = "2001:db8:2::7"
gateway = "198.51.100.1"
gateway6 = "2001:db8:2::1""#;

/// Two machines in networks of their own, each with a gateway.
fn apart() -> World {
    let world = World::new();
    World::place(&world.left, "eth0", ["192.0.2.7/24", "2001:db8:1::7/64"], ["192.0.2.1", "2001:db8:1::1"]);
    World::place(
        &world.right,
        "eth0",
        ["198.51.100.7/24", "2001:db8:2::7/64"],
        ["198.51.100.1", "2001:db8:2::1"],
    );
    world
}

const PROGRAMS: &[&str] = &["ip", "nsenter", "ping", "iperf3"];

/// Sends a TCP stream from one machine to another, and returns the rate at which it arrived, in bit/s.
fn stream(from: &Space, to: &Space, address: &str) -> f64 {
    let mut server = to.command("exec iperf3 -s -1 > /dev/null").spawn().unwrap();
    while to.try_to("ss -ltn | grep -q :5201").code != Some(0) {
        pause();
    }
    let text = from.does(&format!("iperf3 -c {address} -n 2M -J"));
    server.wait().unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let received = &report["end"]["sum_received"];
    assert!(received["bytes"].as_f64().unwrap() > 1e6, "{report}");
    received["bits_per_second"].as_f64().unwrap()
}

/// No earlier than the links' delays, and not much later if the run kept pace.
#[track_caller]
fn assert_delay(ping: &str, least: f64, summary: &serde_json::Value) {
    let rtt = shortest(ping);
    assert!(rtt >= least && (rtt < least + 15.0 || !kept_pace(summary)), "{rtt}\n{ping}");
}

#[test]
fn two_machines_talk_through_a_scenario_and_their_interfaces_are_as_before() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), apart());
    let before = ["eth1", "eth2"].map(|interface| world.machine.look(interface));
    let mut run = world.begin(&scenario([LEFT, RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 192.0.2.1");
    assert!(!world.machine.merges("eth1") && !world.machine.merges("eth2"));
    assert!(world.machine.look("eth1").contains("promiscuity 1"));
    // ping waits for the last answer as long as between two, or for two round trips.
    let pings = ["ping -n -c 3 -i 1 198.51.100.7", "ping -n -6 -c 3 -i 1 2001:db8:2::7"];
    let pings = pings.map(|line| run.until(&world.left, line));
    // The kernel of the sender leaves it to its card to cut the stream and to compute checksums.
    let rates = [
        stream(&world.left, &world.right, "198.51.100.7"),
        stream(&world.right, &world.left, "2001:db8:1::7"),
    ];
    let ttl = run.until(&world.right, "ping -n -c 1 192.0.2.7");
    let summary = run.end();
    for ping in &pings {
        assert!(ping.contains("3 received"), "{ping}");
        assert_delay(ping, 30.0, &summary);
    }
    assert!(ttl.contains("ttl=63"), "{ttl}");
    for rate in rates {
        // 40 or 60 of 1500 bytes are headers, and the first packets wait for the link, not for the sender.
        assert!(rate < 1e7 && (rate > 2e6 || !kept_pace(&summary)), "{rate}");
    }
    let hosts = summary["live"]["hosts"].as_array().unwrap();
    for host in hosts {
        assert!(
            host["sent_packets"].as_u64().unwrap() > 500 && host["received_packets"].as_u64().unwrap() > 500
        );
        assert_eq!((&host["malformed"], &host["unanswered"]), (&0.into(), &0.into()), "{host}");
        assert!(host["lost_outside"] == 0 || !kept_pace(&summary), "{host}");
    }
    assert_eq!(["eth1", "eth2"].map(|interface| world.machine.look(interface)), before);
}

#[test]
fn machines_in_one_network_and_two_vlans_find_each_other() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), World::new());
    if world.left.try_to("ip link add link eth0 name eth0.7 type vlan id 7").code != Some(0) {
        return warpline_skip::skip("vlan", "this kernel has no VLAN interfaces");
    }
    // Behind one interface: the second VLAN is another machine's.
    for number in [100, 200] {
        world.left.does(&format!("ip link add link eth0 name eth0.{number} type vlan id {number}"));
    }
    world.left.does(&format!("ip link set eth0.200 netns {}", world.right.pid()));
    world.left.does("ip link set eth0.100 up");
    world.right.does("ip link set eth0.200 up");
    World::place(&world.left, "eth0.100", ["10.9.0.2/24", "2001:db8::2/64"], ["", ""]);
    World::place(&world.right, "eth0.200", ["10.9.0.3/24", "2001:db8::3/64"], ["", ""]);
    let host = |vlan: u16, end: u8| {
        format!(
            "device = \"eth1\"\nvlan = {vlan}\naddress = \"10.9.0.{end}\"\naddress6 = \"2001:db8::{end}\""
        )
    };
    let mut run = world.begin(&scenario([&host(100, 2), &host(200, 3)], ""));
    let pings = ["ping -n -c 3 -i 0.2 10.9.0.3", "ping -n -6 -c 3 -i 0.2 2001:db8::3"];
    let pings = pings.map(|line| run.until(&world.left, line));
    let rate = stream(&world.left, &world.right, "10.9.0.3");
    let summary = run.end();
    for ping in &pings {
        assert_delay(ping, 30.0, &summary);
    }
    assert!(rate < 1e7, "{rate}");
}

#[test]
fn several_machines_behind_one_interface_a_router_and_a_narrow_link() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), apart());
    // Two more machines on the left: one on the segment, one behind the first.
    world.left.does("ip addr add 192.0.2.8/24 dev eth0; ip addr add 203.0.113.7/32 dev lo");
    let left = format!(
        "{LEFT}\naddresses = [\"192.0.2.0/28\"]\nroutes = [{{ to = \"203.0.113.0/24\", via = \"192.0.2.7\" }}]"
    );
    let mut run = world.begin(&scenario([&left, RIGHT], ", mtu = \"1400B\""));
    for address in ["192.0.2.7", "192.0.2.8", "203.0.113.7"] {
        run.until(&world.right, &format!("ping -n -c 1 -W 2 {address}"));
    }
    // An interface with a larger MTU than the link: the emulator says what fits, or sends fragments, at either end.
    let told = world.left.try_to("ping -n -c 2 -i 0.2 -W 1 -M do -s 1400 198.51.100.7");
    assert!(
        format!("{told:?}").contains("mtu = 1400") || format!("{told:?}").contains("mtu=1400"),
        "{told:?}"
    );
    let told = world.right.try_to("ping -n -c 2 -i 0.2 -W 1 -M do -s 1400 192.0.2.7");
    assert!(
        format!("{told:?}").contains("mtu = 1400") || format!("{told:?}").contains("mtu=1400"),
        "{told:?}"
    );
    for (space, address) in [(&world.left, "198.51.100.7"), (&world.right, "192.0.2.8")] {
        run.until(space, &format!("ping -n -c 1 -W 2 -M dont -s 1400 {address}"));
    }
    // The gateway answers large ones, too.
    run.until(&world.left, "ping -n -c 1 -W 2 -s 3000 192.0.2.1");
    // Nobody has this address, and nobody outside is there.
    assert_ne!(world.right.try_to("ping -n -c 1 -W 4 192.0.2.9").code, Some(0));
    let summary = run.end();
    let unanswered = summary["live"]["hosts"][0]["unanswered"].as_u64().unwrap();
    assert!(unanswered >= 1, "{summary}");
}

#[test]
fn simulated_hosts_and_machines_outside_share_links_under_a_dilated_clock() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), apart());
    let text = scenario([LEFT, RIGHT], "").replace("mode = \"real\"", "mode = \"dilated\", tdf = 4")
        + "[[flow]]\nfrom = \"r\"\nto = \"left\"\nport = 7000\nsize = \"100kB\"\napp = \"transfer\"\nstart = \"500ms\"\n";
    let mut sink = world.left.command("exec iperf3 -s -p 7000 > /dev/null 2>&1").spawn().unwrap();
    let mut run = world.begin(&text);
    let ping = run.until(&world.left, "ping -n -c 3 -i 0.3 198.51.100.7");
    // Long enough for the flow to have begun, at 2 s of this machine's time.
    run.until(&world.left, "ping -n -c 15 -i 0.2 -q 198.51.100.7");
    let summary = run.end();
    sink.kill().unwrap();
    sink.wait().unwrap();
    // To a machine that is not dilated the links are four times as long.
    assert_delay(&ping, 120.0, &summary);
    assert!(summary["flows"][0]["sent_packets"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn a_kill_changes_nothing_for_good() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), apart());
    let before = ["eth1", "eth2"].map(|interface| world.machine.look(interface));
    let mut run = world.begin(&scenario([LEFT, RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 198.51.100.7");
    assert!(!world.machine.merges("eth1"));
    kill_both(&mut run.child);
    // What the kernel does by itself.
    assert!(world.machine.look("eth1").contains("promiscuity 0"));
    // From another namespace, as that of the machine that a container is on. Another test's command may have been quicker.
    world.desk.warpline(&["clean"]).fine();
    let is_restored = || {
        let both = || world.machine.merges("eth1") && world.machine.merges("eth2");
        wait_until("what was switched off is on again", both);
        assert_eq!(["eth1", "eth2"].map(|interface| world.machine.look(interface)), before);
    };
    is_restored();
    drop(run);
    // Where nobody has killed the second process, that does it.
    let mut run = world.begin(&scenario([LEFT, RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 198.51.100.7");
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    is_restored();
    drop(run);
    // And so does the next run.
    let mut run = world.begin(&scenario([LEFT, RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 198.51.100.7");
    kill_both(&mut run.child);
    drop(run);
    let mut run = world.begin(&scenario([LEFT, RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 198.51.100.7");
    run.end();
    assert_eq!(["eth1", "eth2"].map(|interface| world.machine.look(interface)), before);
}

#[test]
fn an_interface_that_cannot_be_used_is_refused_with_the_reason() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), apart());
    let with = |from: &str, to: &str| scenario([&LEFT.replace(from, to), RIGHT], "");
    let text = world.refused(&with("eth1", "eht1"));
    assert!(
        text.contains("host left: there is no interface eht1") && text.contains("did you mean eth1?"),
        "{text}"
    );
    let text = world.refused(&with("\"eth1\"", "\"lo\""));
    assert!(text.contains("no Ethernet interface"), "{text}");
    world.machine.does("ip link set eth1 down");
    let text = world.refused(&with("", ""));
    assert!(text.contains("ip link set eth1 up"), "{text}");
    world.machine.does("ip link set eth1 up mtu 1300");
    world.machine.wait_for("eth1");
    let text = world.refused(&with("", ""));
    assert!(text.contains("mtu = \"1300B\"") && text.contains("1500"), "{text}");
    world.machine.does("ip link set eth1 mtu 1500; ip addr add 198.51.100.7/32 dev lo");
    let text = world.refused(&with("", ""));
    assert!(text.contains("the address 198.51.100.7 itself"), "{text}");
    world.machine.does("ip addr del 198.51.100.7/32 dev lo; ip addr add 172.16.0.1/24 dev eth1");
    world.machine.does("ip route add default via 172.16.0.2");
    let before = world.machine.look("eth1");
    let text = world.refused(&with("", ""));
    assert!(text.contains("default route") && text.contains("force = true"), "{text}");
    let mut run = world.begin(&scenario([&format!("{LEFT}\nforce = true"), RIGHT], ""));
    run.until(&world.left, "ping -n -c 1 -W 1 198.51.100.7");
    // Another run cannot use it at the same time.
    let text = world.refused(&scenario([&format!("{LEFT}\nforce = true"), RIGHT], ""));
    assert!(text.contains("in use by warpline run (outside)"), "{text}");
    // It ends when the interface goes.
    world.machine.does("ip link set eth1 down");
    assert_eq!(run.child.wait().unwrap().code(), Some(1));
    let text = run.errors();
    assert!(text.contains("interface eth1 has gone or is down"), "{text}");
    assert_eq!(world.desk.summary("out")["complete"], false);
    world.machine.does("ip link set eth1 up; ip route add default via 172.16.0.2");
    world.machine.wait_for("eth1");
    assert_eq!(world.machine.look("eth1"), before);
}

#[test]
fn a_shell_joins_two_interfaces_with_a_link_between() {
    if !able(true, PROGRAMS) {
        return;
    }
    let (_turn, world) = (alone(), World::new());
    World::place(&world.left, "eth0", ["10.9.0.2/24", "2001:db8::2/64"], ["", ""]);
    World::place(&world.right, "eth0", ["10.9.0.3/24", "2001:db8::3/64"], ["", ""]);
    let before = ["eth1", "eth2"].map(|interface| world.machine.look(interface));
    let wrong = |arguments: &[&str]| {
        let answer =
            Answer::from(world.warpline(&[&["shell", "--devices"], arguments].concat()).output().unwrap());
        assert_ne!(answer.code, Some(0), "{answer:?}");
        answer.stderr
    };
    assert!(wrong(&["eth1,eth1"]).contains("names eth1 twice"));
    assert!(wrong(&["eth1"]).contains("takes two interfaces"));
    assert!(wrong(&["eth1,eth3"]).contains("did you mean eth"));
    assert!(wrong(&["eth1,eth2", "--base", "true"]).contains("--base"));
    let mut command =
        world.warpline(&["shell", "--devices", "eth1,eth2", "--delay", "20ms", "--rate", "10mbit", "-v"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut run = Run { world: &world, child };
    // ARP and neighbour discovery cross the link, too.
    let pings = ["ping -n -c 3 -i 0.2 10.9.0.3", "ping -n -6 -c 3 -i 0.2 2001:db8::3"];
    for ping in pings.map(|line| run.until(&world.left, line)) {
        assert!(shortest(&ping) >= 40.0 && ping.contains("ttl=64"), "{ping}");
    }
    let rate = stream(&world.left, &world.right, "10.9.0.3");
    assert!(rate < 1e7, "{rate}");
    crate::interrupt::kill(&run.child, "-INT");
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
    let said = run.errors();
    assert!(said.contains("eth1 and eth2 are one network"), "{said}");
    // A command beside it, whose exit code is the link's.
    let line =
        ["shell", "--devices", "eth1,eth2", "--", "sh", "-c", "ip -o link show eth1 > /dev/null && exit 7"];
    assert_eq!(Answer::from(world.warpline(&line).output().unwrap()).code, Some(7));
    assert_eq!(["eth1", "eth2"].map(|interface| world.machine.look(interface)), before);
}
