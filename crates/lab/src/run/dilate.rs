//! Two dilated guests around a link, as `warpline dilate` and `warpline calibrate` run them: a command on one, servers on the other.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::slice::from_ref;

use warpline_core::dilation::Clocks;
use warpline_core::{NodeId, Pace, TimeDelta};
use warpline_guest::machine::Timing;
pub use warpline_guest::order::Ending;
use warpline_guest::order::{ConsoleOrder, FlowOrder, HostOrder, Order, ProgramOrder, Report, Role, Service};
pub use warpline_guest::time::START;
use warpline_guest::{Console, CpuLimit, GuestError, Kernels, MachineConfig, frame};
use warpline_live::crossing::{Account, Carrier, Command, CrossingConfig};
use warpline_live::emulator::Emulator;
use warpline_live::signals::{Signal, Signals};
use warpline_results::live::DilationSummary;
use warpline_scenario::endpoint::CPU_PERIOD;
use warpline_scenario::{Clock, ClockMode, Tdf};

use super::endpoints::Paced;
use super::guests::{Guests, Machines};
use super::live_error;
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

/// Two guests around a link.
#[derive(Clone, Debug)]
pub struct DilateConfig {
    /// The link between the command and its peer.
    pub link: CrossingConfig,
    /// The time dilation factor.
    pub tdf: Tdf,
    /// The kernel of both guests, as [`warpline_guest::Kernels::find`] takes it; the machine's own if none.
    pub kernel: Option<String>,
    /// Congestion control of both guests; the kernel's if none.
    pub cc: Option<String>,
    /// Settings of both guests, by sysctl(8)'s names.
    pub sysctl: Vec<(String, String)>,
    /// Memory of each guest in bytes.
    pub memory: u64,
    /// Share of a core that each guest may take, whatever the factor.
    pub cpu_share: Option<f64>,
    /// Whether `rdtsc` reads the guests' time, and not the machine's.
    pub own_tsc: bool,
    /// The command and its arguments; at least the command.
    pub command: Vec<String>,
    /// A command for `sh -c` that runs on the peer meanwhile.
    pub peer_command: Option<String>,
    /// Environment of the commands.
    pub environment: Vec<(String, String)>,
    /// Their directory.
    pub directory: PathBuf,
    /// Rows and columns of the terminal that the command has at the moment, none if what it prints is only passed on.
    pub terminal: fn() -> Option<(u16, u16)>,
    /// Whether what the command prints is kept for [`DilateOutcome::printed`], and not passed on.
    pub keep: bool,
    /// Whether what the peer's command prints is passed on too, to standard error. What it prints there itself always is.
    pub verbose: bool,
}

/// How it ended.
#[derive(Debug)]
pub struct DilateOutcome {
    /// How the command ended; none if that is not known. If a signal to this process ended everything, that signal counts as the command's end.
    pub ending: Option<Ending>,
    /// How the emulator kept pace, and what the links did.
    pub account: Account,
    /// Both clocks.
    pub dilation: Option<DilationSummary>,
    /// The relation of the run's time to the machine's; that of the guests' clocks, too, which show [`START`] at the run's start.
    pub pace: Pace,
    /// What the command printed, if that was kept.
    pub printed: String,
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

impl DilateConfig {
    /// The environment variables of this process, for [`DilateConfig::environment`]: those whose name and value are text (UTF-8).
    pub fn environment() -> Vec<(String, String)> {
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        std::env::vars_os().filter_map(text).collect()
    }

    /// Checks what was asked for: whether guests can have it, and whether the kernel that was named is there.
    fn check(&self) -> Result<(), RunError> {
        let wrong = |error: GuestError| RunError::Build(error.to_string());
        self.machine(0, None).check().map_err(wrong)?;
        if let Some(name) = &self.kernel {
            Kernels::of_user().find(Some(name), &self.directory).map_err(wrong)?;
        }
        Ok(())
    }

    /// The machine at an end: 0 is the command's, 1 its peer.
    fn machine(&self, node: u32, terminal: Option<(u16, u16)>) -> MachineConfig {
        let here = node == 0;
        let name = if here { HERE } else { PEER };
        let vlan = *frame::VLANS.start();
        let host = HostOrder {
            name: name.to_owned(),
            vlan,
            mac: frame::mac(vlan),
            v4: NodeId(node).ipv4(),
            v6: Some(NodeId(node).ipv6()),
            mtu: self.link.emulator.mtu,
            cc: self.cc.clone(),
            sysctl: self.sysctl.clone(),
            interfaces: vec![],
            tc: vec![],
        };
        let order = Order { end: NEVER, hosts: vec![host], ..Order::default() };
        let order = if here { self.command_order(order, terminal) } else { self.peer_order(order) };
        MachineConfig {
            name: name.to_owned(),
            kernel: self.kernel.clone(),
            memory: self.memory,
            seed: self.link.seed,
            timing: Timing::Dilated,
            fastest: [&self.link.up, &self.link.down]
                .into_iter()
                .filter_map(|link| link.rate.constant())
                .max(),
            cpu: self.cpu_share.map(|share| CpuLimit { share, period: CPU_PERIOD.as_nanos() }),
            clocks: Clocks::default(),
            own_tsc: self.own_tsc,
            console: match (here, terminal) {
                (true, Some(_)) => Console::Terminal,
                (true, None) => Console::Keys,
                (false, _) => Console::File,
            },
            order,
        }
    }

    fn command_order(&self, order: Order, terminal: Option<(u16, u16)>) -> Order {
        let console = ConsoleOrder {
            host: 0,
            words: self.command.clone(),
            environment: self.environment_of(0),
            directory: self.directory.to_string_lossy().into_owned(),
            start: self.settle().as_nanos(),
            output: terminal.is_none().then(|| COMMAND.to_owned()),
            size: terminal,
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
            verify: false,
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
            notice: None,
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
    fn tails(&self, machines: &mut Machines, terminal: bool) -> Vec<Tail> {
        let mut tails = Vec::new();
        let mut add = |machine: usize, name: String, to: Box<dyn Write>| {
            tails.push(Tail { path: machines.machine(machine).shared(&name), file: None, to });
        };
        if !terminal && !self.keep {
            add(0, format!("{COMMAND}.stdout"), Box::new(std::io::stdout()));
        }
        if !terminal {
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

/// The command's guest and its peer, in dilated time.
struct Dilated {
    machines: Machines,
    pacer: Pacer,
    tails: Vec<Tail>,
    signals: Signals,
    terminal: fn() -> Option<(u16, u16)>,
}

impl Dilated {
    /// What the command's guest has reported, once it has.
    fn reported(&mut self) -> Option<Report> {
        let machine = self.machines.machine(0);
        // It may be half written: then the next look finds all of it.
        machine.has_reported().then(|| machine.report().ok())?
    }
}

impl Command for Dilated {
    /// None if it is not known; or what has become of a guest that died.
    type Ending = Result<Option<Ending>, String>;

    fn wake(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.signals.bell()]
    }

    fn pace(&mut self, emulator: &mut Emulator) -> Option<TimeDelta> {
        self.pacer.look(emulator, from_ref(&self.machines));
        Some(TimeDelta::from_nanos(self.pacer.tdf().to_run(LOOK).max(1)))
    }

    fn look(&mut self) -> Option<Self::Ending> {
        let mut ending = None;
        for signal in self.signals.take() {
            let machine = self.machines.machine(0);
            match (signal, (self.terminal)()) {
                (Signal::SIGINT, _) => machine.press(b"\x03"),
                (Signal::SIGQUIT, _) => machine.press(b"\x1c"),
                (Signal::SIGWINCH, Some((rows, columns))) => machine.resize(rows, columns),
                (Signal::SIGWINCH, None) => {}
                _ => ending = Some(Ok(Some(Ending::Signalled(signal as i32)))),
            }
        }
        let ending = ending.or_else(|| self.reported().map(|report| Ok(report.console)));
        // After the report: all that the command printed is there by then.
        for tail in &mut self.tails {
            // A reader that has gone away has all it wanted.
            let _ = tail.pass();
        }
        ending.or_else(|| self.machines.look().map(Err))
    }
}

/// Runs a command on one of two dilated guests around a link, until it ends. Signals to this process are for the command: Ctrl-C and Ctrl-\ as
/// keys, the terminal's new size; SIGTERM and SIGHUP end all of it.
///
/// # Errors
/// If what was asked for is wrong, the guests cannot be had, or one fails. Nothing is left behind then.
pub fn dilate(config: &DilateConfig) -> Result<DilateOutcome, RunError> {
    config.check()?;
    // Before the terminal's size is read: later changes arrive as signals.
    let signals =
        Signals::listen().map_err(|error| RunError::Live(format!("cannot listen for signals: {error}")))?;
    let terminal = (config.terminal)();
    let hosts = vec![(HERE.to_owned(), 0), (PEER.to_owned(), 1)];
    let guests = [0, 1].map(|node| config.machine(node, terminal));
    let mut machines = Machines::new(Guests::of(hosts, guests.into()), &config.directory)?;
    // Its terminal takes the size that it has when it begins.
    let mut told = None;
    let booted = machines.boot(&mut || {
        told = signals.take().into_iter().find(|signal| *signal != Signal::SIGWINCH);
        told.is_none()
    })?;
    let mut link = config.link.clone();
    link.emulator.others = machines.processes().len();
    let mut carrier = Carrier::new(&link, machines.ports()?);
    let tails = config.tails(&mut machines, terminal.is_some());
    let pacer = Pacer::new(&Clock { mode: ClockMode::Dilated, tdf: Some(config.tdf), max_lag: None });
    let mut command = Dilated { machines, pacer, tails, signals, terminal: config.terminal };
    let ending = match booted {
        true => {
            command.machines.limit(Some(command.pacer.tdf()))?;
            command.pacer.begin(&mut carrier.emulator, from_ref(&command.machines), config.settle());
            carrier.carry(&mut command, |_| {}).map_err(live_error)?.map_err(RunError::Live)?
        }
        false => told.map(|signal| Ending::Signalled(signal as i32)),
    };
    let pace = *carrier.emulator.clock().pace();
    let printed = match config.keep {
        true => std::fs::read_to_string(command.machines.machine(0).shared(&format!("{COMMAND}.stdout"))),
        false => Ok(String::new()),
    };
    command.machines.settle();
    let account = carrier.account();
    let dilation =
        command.pacer.summary(account.network.now().as_secs_f64(), account.audit.summary.duration_s);
    Ok(DilateOutcome { ending, account, dilation, pace, printed: printed.unwrap_or_default() })
}
