//! Two dilated guests around a link, as `warpline dilate` runs them: a command on one, servers on the other.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::slice::from_ref;

use warpline_core::{LinkId, NodeId, TimeDelta};
use warpline_guest::machine::Timing;
pub use warpline_guest::order::Ending;
use warpline_guest::order::{ConsoleOrder, FlowOrder, HostOrder, Order, ProgramOrder, Report, Role, Service};
use warpline_guest::{Console, MachineConfig, frame};
use warpline_live::audit::Audit;
use warpline_live::crossing::Crossing;
use warpline_live::emulator::{Emulator, EmulatorConfig};
use warpline_net::{Control, LinkConfig, LinkStats};
use warpline_results::live::DilationSummary;
use warpline_scenario::{Clock, ClockMode, Tdf};

use super::guests::{Guests, Machines};
use super::pacer::Pacer;
use crate::run::RunError;

/// The longest without a look around, in nanoseconds of the machine: output and keys feel immediate.
const LOOK: u64 = 20_000_000;
/// What servers have to start in, before the command is started and time is dilated.
const SETTLE: TimeDelta = TimeDelta::from_millis(500);
/// No run lasts so long: a century, in nanoseconds.
const NEVER: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// The simple services of the peer.
const SERVICES: [(u16, Service); 3] = [(7, Service::Echo), (9, Service::Discard), (19, Service::Source)];
/// Names of what commands print, in the share.
const COMMAND: &str = "command";
const PEER: &str = "peer";
const HERE: &str = "here";

/// What somebody at the keyboard, or another process, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C: the command is interrupted.
    Interrupt,
    /// Ctrl-\: the command quits.
    Quit,
    /// All of it ends.
    End,
    /// The terminal has so many rows and columns now.
    Resize(u16, u16),
}

/// Two guests around a link.
#[derive(Clone, Debug)]
pub struct DilateConfig {
    /// The link from the command to its peer. Its ends are filled in.
    pub up: LinkConfig,
    /// The link back.
    pub down: LinkConfig,
    /// Seed of loss, jitter and random queues.
    pub seed: u64,
    /// How the emulator works, the MTU included.
    pub emulator: EmulatorConfig,
    /// The time dilation factor.
    pub tdf: Tdf,
    /// Congestion control of both guests; the kernel's if none.
    pub cc: Option<String>,
    /// Settings of both guests, by sysctl(8)'s names.
    pub sysctl: Vec<(String, String)>,
    /// Memory of each guest in bytes.
    pub memory: u64,
    /// Share of a core that each guest may take, whatever the factor.
    pub cpu_share: Option<f64>,
    /// The command and its arguments; at least the command.
    pub command: Vec<String>,
    /// A command for `sh -c` that runs on the peer meanwhile.
    pub peer_command: Option<String>,
    /// Environment of the commands.
    pub environment: Vec<(String, String)>,
    /// Their directory.
    pub directory: PathBuf,
    /// Rows and columns of the terminal that the command has, none if what it prints is only passed on.
    pub terminal: Option<(u16, u16)>,
    /// Whether what the peer's command prints is passed on too, to standard error. What it prints there itself always is.
    pub verbose: bool,
}

/// How it ended.
#[derive(Debug)]
pub struct DilateOutcome {
    /// How the command ended; none if all of it was told to end.
    pub ending: Option<Ending>,
    /// How far the emulator kept pace.
    pub audit: Audit,
    /// Both clocks.
    pub dilation: Option<DilationSummary>,
    /// Counters of the two links, up and down.
    pub links: [LinkStats; 2],
}

/// Addresses of the command's guest and of its peer.
pub fn addresses() -> [(Ipv4Addr, Ipv6Addr); 2] {
    [0, 1].map(|node| (NodeId(node).ipv4(), NodeId(node).ipv6()))
}

/// A file of the share that grows, and how much of it has been passed on.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    to: Box<dyn Write>,
}

impl Tail {
    /// Passes on what is new.
    fn pass(&mut self) -> std::io::Result<()> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.to.write_all(&bytes)?;
        self.to.flush()
    }
}

fn pass_on(tails: &mut [Tail]) {
    for tail in tails {
        // A reader that has gone away has all it wanted.
        let _ = tail.pass();
    }
}

impl DilateConfig {
    /// The machine at an end: 0 is the command's, 1 its peer.
    fn machine(&self, node: u32) -> MachineConfig {
        let here = node == 0;
        let name = if here { HERE } else { PEER };
        let vlan = *frame::VLANS.start();
        let host = HostOrder {
            name: name.to_owned(),
            vlan,
            mac: frame::mac(vlan),
            v4: NodeId(node).ipv4(),
            v6: Some(NodeId(node).ipv6()),
            mtu: self.emulator.mtu,
            cc: self.cc.clone(),
            sysctl: self.sysctl.clone(),
        };
        let order = Order { end: NEVER, hosts: vec![host], ..Order::default() };
        let order = if here { self.command_order(order) } else { self.peer_order(order) };
        MachineConfig {
            name: name.to_owned(),
            memory: self.memory,
            seed: self.seed,
            timing: Timing::Dilated,
            cpu_share: self.cpu_share,
            console: match (here, self.terminal) {
                (true, Some(_)) => Console::Terminal,
                (true, None) => Console::Keys,
                (false, _) => Console::File,
            },
            order,
        }
    }

    fn command_order(&self, order: Order) -> Order {
        let console = ConsoleOrder {
            host: 0,
            words: self.command.clone(),
            environment: self.environment_of(0),
            directory: self.directory.to_string_lossy().into_owned(),
            start: self.settle().as_nanos(),
            output: self.terminal.is_none().then(|| COMMAND.to_owned()),
            size: self.terminal,
        };
        Order { console: Some(console), ..order }
    }

    fn peer_order(&self, order: Order) -> Order {
        let flow = |(number, (port, service)): (usize, (u16, Service))| FlowOrder {
            id: number as u32,
            host: 0,
            role: Role::Simple { port, service },
            start: 0,
            stop: None,
            cc: None,
            after: Vec::new(),
        };
        let program = |line: &String| ProgramOrder {
            host: 0,
            words: vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
            environment: self.environment_of(1),
            directory: self.directory.to_string_lossy().into_owned(),
            start: 0,
            stop: 15,
            collect: Vec::new(),
            output: PEER.to_owned(),
            after: Vec::new(),
            told: None,
        };
        Order {
            flows: SERVICES.into_iter().enumerate().map(flow).collect(),
            programs: self.peer_command.iter().map(program).collect(),
            ..order
        }
    }

    /// How long time goes undilated first.
    fn settle(&self) -> TimeDelta {
        if self.peer_command.is_some() { SETTLE } else { TimeDelta::ZERO }
    }

    /// The environment at an end: where the other is, and what was given.
    fn environment_of(&self, node: u32) -> Vec<(String, String)> {
        let other = 1 - node;
        let peer = [
            ("WARPLINE_PEER".to_owned(), NodeId(other).ipv4().to_string()),
            ("WARPLINE_PEER6".to_owned(), NodeId(other).ipv6().to_string()),
        ];
        self.environment.iter().cloned().chain(peer).collect()
    }

    /// What is passed on, and where to.
    fn tails(&self, machines: &mut Machines) -> Vec<Tail> {
        let mut tails = Vec::new();
        let mut add = |machine: usize, name: String, to: Box<dyn Write>| {
            tails.push(Tail { path: machines.machine(machine).shared(&name), file: None, to });
        };
        if self.terminal.is_none() {
            add(0, format!("{COMMAND}.stdout"), Box::new(std::io::stdout()));
            add(0, format!("{COMMAND}.stderr"), Box::new(std::io::stderr()));
        }
        if self.peer_command.is_some() {
            add(1, format!("{PEER}.stderr"), Box::new(std::io::stderr()));
        }
        if self.peer_command.is_some() && self.verbose {
            add(1, format!("{PEER}.stdout"), Box::new(std::io::stderr()));
        }
        tails
    }
}

/// Runs a command on one of two dilated guests around a link, until it ends. `asked` is looked at often.
///
/// # Errors
/// If the guests cannot be had, or one fails. Nothing is left behind then.
pub fn dilate(
    config: &DilateConfig,
    asked: &mut dyn FnMut() -> Option<Asked>,
) -> Result<DilateOutcome, RunError> {
    let hosts = vec![(HERE.to_owned(), 0), (PEER.to_owned(), 1)];
    let mut machines = Machines::new(Guests::of(hosts, vec![config.machine(0), config.machine(1)]))?;
    let (mut network, mut crossing) = Crossing::network([&config.up, &config.down], config.seed);
    let mut emulator = Emulator::new(config.emulator);
    let booted = machines.boot(&mut || match asked() {
        Some(Asked::Interrupt | Asked::Quit | Asked::End) => false,
        // Its terminal takes the size that it has when it begins.
        Some(Asked::Resize(..)) | None => true,
    })?;
    for port in machines.ports()? {
        emulator.add_port(port);
    }
    let mut tails = config.tails(&mut machines);
    let mut pacer = Pacer::new(&Clock { mode: ClockMode::Dilated, tdf: Some(config.tdf), max_lag: None });
    machines.limit(true)?;
    pacer.begin(&mut emulator, from_ref(&machines), config.settle());
    let report = loop {
        if !booted {
            break None;
        }
        pacer.look(&mut emulator, from_ref(&machines));
        let until = network.now() + TimeDelta::from_nanos(pacer.tdf().to_run(LOOK).max(1));
        let ran = emulator.run(&mut network, &mut crossing, until, &[], |_| Control::Continue);
        pass_on(&mut tails);
        match asked() {
            Some(Asked::Interrupt) => machines.machine(0).press(b"\x03"),
            Some(Asked::Quit) => machines.machine(0).press(b"\x1c"),
            Some(Asked::End) => break None,
            Some(Asked::Resize(rows, columns)) => machines.machine(0).resize(rows, columns),
            None => {}
        }
        if let Some(report) = reported(&mut machines) {
            break Some(report);
        }
        if let Some(dead) = machines.look() {
            return Err(RunError::Live(dead));
        }
        ran.map_err(|error| RunError::Live(error.to_string()))?;
    };
    pass_on(&mut tails);
    let audit = emulator.audit();
    emulator.relax();
    Ok(DilateOutcome {
        ending: report.and_then(|report| report.console),
        dilation: pacer.summary(network.now().as_secs_f64(), audit.duration_s),
        audit,
        links: [0, 1].map(|link| network.link_stats(LinkId(link))),
    })
}

/// What the command's guest has reported, once it has.
fn reported(machines: &mut Machines) -> Option<Report> {
    let machine = machines.machine(0);
    // It may be half written: then the next look finds all of it.
    machine.has_reported().then(|| machine.report().ok())?
}
