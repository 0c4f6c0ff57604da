//! The orders and reports of a guest: files in a directory that the guest and the machine share.
//!
//! The agent (this package's program) is the guest's first process. It reads the [`Order`], sets up hosts, reports that it is
//! ready, waits until the guest's clock shows [`Order::start`], and starts each flow and program at its time. At the end of
//! the run it writes a [`Report`] and powers the guest off. All times are nanoseconds; those of an order are counted from the
//! run's start unless stated otherwise.
//!
//! Linux only; elsewhere this library is empty.
#![cfg(target_os = "linux")]

mod listeners;
pub mod notice;
pub mod probe;
pub mod terminal;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

pub use notice::{Notice, Why};
pub use probe::Check;

/// Name of the order's file in the guest's directory.
pub const ORDER: &str = "order.json";
/// Name of the directory, below the guest's, that the guest may write to.
pub const SHARE: &str = "share";
/// Name of the file in the share that signals that all hosts are set up.
pub const READY: &str = "ready";
/// Name of the file in the share that signals that the guest's time stands still, in dilated time.
pub const FROZEN: &str = "frozen";
/// Name of the file in the share with the guest's `CLOCK_MONOTONIC` while its time stands still, in nanoseconds.
pub const SHOWN: &str = "shown";
/// Name of the report's file in the share.
pub const REPORT: &str = "report.json";
/// Name of the file in the share that says why the guest could not be set up.
pub const FAILURE: &str = "failure";
/// Name of the file in the share that samples are appended to, one [`Sample`] as JSON in a line.
pub const SAMPLES: &str = "samples.jsonl";

/// How long a program has to end after the signal that asks it to, in nanoseconds of the guest's clock.
pub const GRACE: u64 = 1_000_000_000;

/// Name of the file in the share with the state of the queues of a host, as `tc -s -j qdisc` shows it at the end of the run.
pub fn queues_file(host: &str) -> String {
    format!("{host}.qdisc.json")
}

/// Everything that a guest should do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The guest's directory on the machine, seen from there.
    pub directory: String,
    /// The guest's `CLOCK_MONOTONIC` at the start of the run.
    pub start: u64,
    /// In dilated time, what the guest's `CLOCK_REALTIME` shows at the start of the run: both clocks are aligned with the run's while they stand
    /// still.
    pub align: Option<u64>,
    /// When the run ends.
    pub end: u64,
    /// When counting for the report begins.
    pub warmup: u64,
    /// How often flows are sampled; 0 for never.
    pub interval: u64,
    /// Kernel modules to load first, in this order, as paths on the machine.
    pub modules: Vec<String>,
    /// Modules that commands of `tc`, `nft` and `iptables` need, as paths on the machine: loaded if they are not built in.
    pub tools: Vec<String>,
    /// Modules of congestion controls that are not built in, as paths: loaded when a host or flow names one.
    pub congestion: Vec<CongestionModule>,
    /// Hosts, each a network namespace.
    pub hosts: Vec<HostOrder>,
    /// Built-in traffic.
    pub flows: Vec<FlowOrder>,
    /// Programs.
    pub programs: Vec<ProgramOrder>,
    /// Conditions to check.
    pub conditions: Vec<ConditionOrder>,
    /// A program on the console; when it ends, the guest ends.
    pub console: Option<ConsoleOrder>,
    /// How many terminals can be entered from the machine while the run goes on; at most [`terminal::TERMINALS`].
    pub terminals: u32,
    /// The network cards of its hosts. Without, hosts have VLANs of one device that has no offloads.
    pub cards: Option<CardOrder>,
}

/// Network cards with offloads: each host that does not forward has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardOrder {
    /// Least time between two interrupts for frames that have arrived; 0 for an interrupt at each arrival. Lock-step only.
    pub interval: u64,
}

/// A network device besides the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOrder {
    /// Its number, from 1 on.
    pub number: u32,
    /// The VLAN by which the simulator knows it; the guest does not see it.
    pub vlan: u16,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Bits per second that it sends; `None` for no limit.
    pub rate: Option<u64>,
    /// Bytes that each packet takes in addition on its link.
    pub framing: u32,
    /// Whether it is a network card with offloads.
    pub card: bool,
}

impl Order {
    /// The ports at which the simulator knows the guest, with the numbers of their hosts and their VLANs: one of each host, or one of each of its
    /// interfaces.
    pub fn ports(&self) -> impl Iterator<Item = (usize, u16)> {
        self.hosts.iter().enumerate().flat_map(|(number, host)| {
            let own = host.interfaces.is_empty().then_some(host.vlan);
            let all = own.into_iter().chain(host.interfaces.iter().map(|interface| interface.vlan));
            all.map(move |vlan| (number, vlan))
        })
    }

    /// The interfaces of all hosts that forward.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceOrder> {
        self.hosts.iter().flat_map(|host| &host.interfaces)
    }

    /// The number of the network card of the host with this number, if it has one.
    pub fn card(&self, host: usize) -> Option<u32> {
        let alone = |host: &HostOrder| host.interfaces.is_empty();
        self.cards?;
        self.hosts.get(host).filter(|host| alone(host))?;
        let before = self.hosts[..host].iter().filter(|host| alone(host)).count();
        Some((self.interfaces().count() + before) as u32 + 1)
    }

    /// All network devices besides the first, in the order of their numbers, which begin at 1: the interfaces of hosts that forward, then the
    /// network cards of the others.
    pub fn devices(&self) -> impl Iterator<Item = DeviceOrder> {
        let interfaces = self.interfaces().map(|own| DeviceOrder {
            number: own.device,
            vlan: own.vlan,
            mac: own.mac,
            mtu: own.mtu,
            rate: own.rate,
            framing: own.framing,
            card: false,
        });
        let cards = self.hosts.iter().enumerate().filter_map(|(index, host)| {
            let (vlan, mac, mtu) = (host.vlan, host.mac, host.mtu);
            Some(DeviceOrder {
                number: self.card(index)?,
                vlan,
                mac,
                mtu,
                rate: None,
                framing: 0,
                card: true,
            })
        });
        interfaces.chain(cards)
    }
}

/// A congestion control in a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionModule {
    /// Its name for `TCP_CONGESTION`.
    pub name: String,
    /// The module's file, after those of the modules that it needs.
    pub paths: Vec<String>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOrder {
    /// Its name.
    pub name: String,
    /// Its VLAN on the guest's first network device; if it has a network card, the VLAN by which the simulator knows that.
    pub vlan: u16,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub v6: Option<Ipv6Addr>,
    /// MTU of its interface in bytes.
    pub mtu: u32,
    /// Congestion control of its connections; the kernel's default (cubic) if none.
    pub cc: Option<String>,
    /// sysctl settings: dotted names and values.
    pub sysctl: Vec<(String, String)>,
    /// The interfaces of a host that forwards. Empty for any other host, which has one interface, `eth0`, and a route to everything.
    pub interfaces: Vec<InterfaceOrder>,
    /// Commands for `tc`, as its arguments, carried out in this order.
    pub tc: Vec<Vec<String>>,
}

/// An interface of a host that forwards: a network device of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceOrder {
    /// Its name.
    pub name: String,
    /// The number of its network device, from 1 on.
    pub device: u32,
    /// The VLAN by which the simulator knows it; the guest does not see it.
    pub vlan: u16,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Bits per second that it sends; `None` for no limit.
    pub rate: Option<u64>,
    /// Bytes that each packet takes in addition on its link.
    pub framing: u32,
    /// Addresses to which it is the route.
    pub routes: Vec<IpAddr>,
}

/// One end of a built-in flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOrder {
    /// Number that identifies it in its report.
    pub id: u32,
    /// Number of the host.
    pub host: u32,
    /// What it does.
    pub role: Role,
    /// When it begins. A listening end is ready before the run starts.
    pub start: u64,
    /// When it stops; `None` for the end of the run.
    pub stop: Option<u64>,
    /// Congestion control; `None` for the host's.
    pub cc: Option<String>,
    /// Numbers of the conditions that it waits for before it connects.
    pub after: Vec<u32>,
    /// Whether the data are a pattern that the receiving end compares them with.
    pub verify: bool,
}

/// What one end of a flow does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Connects and sends a number of bytes, or without end.
    Send {
        /// The other end.
        to: IpAddr,
        /// Its port.
        port: u16,
        /// How many bytes, `None` for as many as possible.
        bytes: Option<u64>,
    },
    /// Accepts one connection and discards what it receives.
    Sink {
        /// Where it listens.
        port: u16,
    },
    /// Connects and sends a request, waits for the complete response, and repeats.
    Request {
        /// The other end.
        to: IpAddr,
        /// Its port.
        port: u16,
        /// Bytes of a request, at least 16.
        request: u64,
        /// Bytes of a response.
        response: u64,
        /// How many times, `None` for as often as possible.
        count: Option<u64>,
        /// Pause between a response and the next request.
        pause: u64,
    },
    /// Accepts connections and answers requests.
    Serve {
        /// Where it listens.
        port: u16,
    },
    /// Accepts any number of connections and does something simple with each.
    Simple {
        /// Where it listens.
        port: u16,
        /// What it does.
        service: Service,
    },
}

/// A simple service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Discards what it receives (RFC 863).
    Discard,
    /// Sends back what it receives (RFC 862).
    Echo,
    /// Sends as much as possible, as chargen does (RFC 864).
    Source,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramOrder {
    /// Number of the host.
    pub host: u32,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: String,
    /// When it is started.
    pub start: u64,
    /// The signal that ends it at the end of the run.
    pub stop: i32,
    /// Files to bring back, as paths in the guest (relative ones from `directory`).
    pub collect: Vec<String>,
    /// Name of its output in the share: `NAME.stdout` and `NAME.stderr`.
    pub output: String,
    /// Numbers of the conditions that it waits for.
    pub after: Vec<u32>,
    /// The number that identifies its end in [`Notice::Ended`], if that is to be sent.
    pub notice: Option<u32>,
}

/// A condition that others wait for. A [`Notice`] says whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionOrder {
    /// Its number, unique in the whole run.
    pub id: u32,
    /// Number of the host.
    pub host: u32,
    /// What to check.
    pub check: Check,
    /// Position of its program in the list of programs, if it concerns one: checking then begins when that program starts.
    pub program: Option<u32>,
    /// When checking begins, if it concerns no program.
    pub start: u64,
    /// How long to check at most.
    pub limit: u64,
}

/// A shell, or one program, on the guest's console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleOrder {
    /// Number of the host.
    pub host: u32,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: String,
    /// When it is started.
    pub start: u64,
    /// Name of its output in the share: `NAME.stdout` and `NAME.stderr`, without an input; the console then only delivers Ctrl-C.
    /// `None` if the console is its input and output.
    pub output: Option<String>,
    /// Rows and columns of the terminal, if it is one.
    pub size: Option<(u16, u16)>,
}

/// The guest's report on a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Built-in flows, as listed in the order.
    pub flows: Vec<FlowReport>,
    /// Programs, as listed in the order.
    pub programs: Vec<ProgramReport>,
    /// How the console's program ended.
    pub console: Option<Ending>,
    /// Bytes of memory that all hosts together used when they were set up.
    pub hosts_memory: u64,
    /// Memory that was free at the end, in bytes.
    pub free_memory: u64,
}

/// The report on one end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its number.
    pub id: u32,
    /// When the connection was established.
    pub connected: Option<u64>,
    /// When the last byte had been sent and acknowledged, or received; `None` if the transfer was still going on.
    pub finished: Option<u64>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Congestion control of its connection, as the kernel reports it; of the last one if it answers requests.
    pub cc: Option<String>,
    /// Requests answered, at either end.
    pub answers: u64,
    /// Requests made, oldest first.
    pub requests: Vec<RequestReport>,
    /// The kernel's counters at the end of the warm-up.
    pub warm: TcpInfo,
    /// The kernel's counters at the end.
    pub last: TcpInfo,
}

/// A request that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// When.
    pub asked: u64,
    /// When the last byte of the response had arrived; `None` if it had not.
    pub answered: Option<u64>,
}

/// The kernel's information on a connection (`TCP_INFO`, tcp(7) and linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments.
    pub ssthresh: u32,
    /// Smoothed round-trip time in microseconds.
    pub rtt: u32,
    /// Its variation in microseconds.
    pub rttvar: u32,
    /// Smallest round-trip time in microseconds.
    pub min_rtt: u32,
    /// Retransmission timeout in microseconds.
    pub rto: u32,
    /// Sender's segment size in bytes.
    pub mss: u32,
    /// Segments not yet acknowledged.
    pub unacked: u32,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Payload bytes acknowledged by the other side.
    pub acked: u64,
    /// Payload bytes received in order.
    pub received: u64,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments with payload sent.
    pub data_out: u32,
    /// Bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Time in microseconds in which the receive window limited the sender.
    pub window_limited: u64,
    /// D-SACKs received: unnecessary retransmissions.
    pub dsacks: u32,
    /// Segments acknowledged with a congestion mark (ECN).
    pub marked: u32,
}

/// One sample of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub time: u64,
    /// The flow's number.
    pub id: u32,
    /// The kernel's counters.
    pub info: TcpInfo,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It could not be started.
    NotStarted(String),
    /// It ran until the end of the run, and was stopped.
    Stopped,
}

/// The report on a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// How it ended.
    pub ending: Ending,
    /// When it was started.
    pub started: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Names, in the share, of the files that were brought back.
    pub files: Vec<String>,
    /// Files that could not be brought back, and why.
    pub missing: Vec<String>,
}
