//! A guest as a process: boots it, watches it, ends it.
//!
//! The machine's file system is its root, read-only; its memory is a file in `/dev/shm`. No part of it outlives this process: the kernel
//! dies with the thread that booted it, and all its processes die with the kernel. So that thread must live as long as the guest.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::personality::{self, Persona};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, pipe2};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use warpline_agent::terminal::FIRST;
use warpline_agent::{CongestionModule, FAILURE, ORDER, Order, READY, REPORT, Report};
use warpline_core::Rate;
use warpline_core::dilation::{Clocks, Pace, Tdf};

use crate::directory::{AGENT, CLOCKSHIM, CONSOLE, Directory, MEMORY};
use crate::door::{self, Door};
use crate::error::{Doing, GuestError};
use crate::frame::{HEADER, VLANS};
use crate::kernel::{ALWAYS, IPV6, Kernel};
use crate::modules;
use crate::nic::Nic;
use crate::page::{DEVICES, MODE_DILATED, MODE_LOCKSTEP, NEVER, Page, write_pace};
use crate::share::{CpuLimit, CpuShare, Held, LEAST_SHARE};
use crate::time::{EPOCH, START, host_now};

/// Guest time that an entry into user mode takes in lock-step, in nanoseconds. If it were zero, time would never move while a program
/// polls. Goodput does not depend on it.
pub(crate) const COST: u64 = 1000;
/// Descriptors in the kernel's process. Always the same: they are in its boot line, which seeds its random numbers.
const NIC: i32 = 200;
const PAGE: i32 = 201;
const SIZES: i32 = 202;
/// The first of those of further network devices.
const DEVICE: i32 = 210;
/// The first of those of terminals: two for each, of what is typed there and of what is printed.
const TERMINAL: i32 = 300;
const _: () = assert!(DEVICE + DEVICES as i32 <= TERMINAL, "their descriptors are apart");
/// The descriptor of a further network device, by its number, from 1 on.
fn descriptor(device: u32) -> i32 {
    DEVICE + device as i32 - 1
}
/// The descriptors of a terminal, by its number, from 0 on.
fn terminal_descriptors(number: u32) -> [i32; 2] {
    [TERMINAL + 2 * number as i32, TERMINAL + 2 * number as i32 + 1]
}
/// Least memory with which a guest boots, in bytes.
const LEAST_MEMORY: u64 = 64 << 20;

/// Where a guest's console is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Console {
    /// In a file, whose last lines are shown if something goes wrong.
    #[default]
    File,
    /// In this process's terminal, which is restored when the guest has ended. Report changes of its size with [`Machine::resize`].
    Terminal,
    /// Like [`Console::File`], with keys from [`Machine::press`].
    Keys,
}

/// The relation of a guest's time to other clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// In lock-step with a simulator; see [`crate::lockstep`].
    LockStep,
    /// Dilated: the machine's clock, slower; see [`crate::dilation`].
    Dilated,
}

/// Configuration of a guest.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Its name, for messages.
    pub name: String,
    /// Its kernel, as [`crate::Kernels::find`] takes it; none for the machine's own.
    pub kernel: Option<String>,
    /// Its memory in bytes. Memory that it does not use costs the machine nothing.
    pub memory: u64,
    /// Seed of its random numbers in lock-step.
    pub seed: u64,
    /// Its time.
    pub timing: Timing,
    /// Rate of its fastest link; `None` if no link has a rate. In dilated time it decides how much room the network card has.
    pub fastest: Option<Rate>,
    /// The core that it may use once its time has begun; `None` for no limit.
    pub cpu: Option<CpuLimit>,
    /// Its clock beside the run's, in dilated time.
    pub clocks: Clocks,
    /// Whether programs read its time from the time-stamp counter (rdtsc) in dilated time. If not, they read the machine's. In lock-step they
    /// always read its time.
    pub own_tsc: bool,
    /// Where its console is.
    pub console: Console,
    /// Its order. Directory, start and modules are filled in when it boots.
    pub order: Order,
}

/// A guest that has been booted.
#[derive(Debug)]
pub struct Machine {
    name: String,
    kernel: String,
    child: Child,
    ended: Option<ExitStatus>,
    pub(crate) page: Arc<Page>,
    /// Our end of the network device's bell, until a [`Nic`] takes it.
    bell: Option<OwnedFd>,
    pub(crate) share: Option<CpuShare>,
    /// The limit of its share, once that has held.
    pub(crate) held: Cell<Option<Held>>,
    directory: Directory,
    /// Difference between its clock and the shim's time, in dilated time.
    pub(crate) offset: i64,
    /// Its clock beside the run's.
    pub(crate) clocks: Clocks,
    /// The previous settings of the terminal that is its console.
    terminal: Option<Termios>,
    /// Receives changes of that terminal's size.
    sizes: Option<File>,
}

impl MachineConfig {
    /// Checks everything that does not depend on this machine.
    ///
    /// # Errors
    /// If something is invalid.
    pub fn check(&self) -> Result<(), GuestError> {
        let refuse = |problem: String| Err(GuestError::Config { name: self.name.clone(), problem });
        if let Some(CpuLimit { share, .. }) = self.cpu.filter(|cpu| !(LEAST_SHARE..=1.0).contains(&cpu.share))
        {
            return refuse(format!("{share} is not a share of a core; it must be {LEAST_SHARE} to 1"));
        }
        if self.memory < LEAST_MEMORY {
            let (least, memory) = (LEAST_MEMORY >> 20, self.memory >> 20);
            return refuse(format!("{memory} MB are too little memory; it needs {least} MB"));
        }
        if let Some((number, vlan)) = self.order.ports().find(|(_, vlan)| !VLANS.contains(vlan)) {
            let name = &self.order.hosts[number].name;
            return refuse(format!("host {name} has VLAN {vlan}; 1 to 4094 are possible"));
        }
        let devices = self.order.devices().count();
        if devices > DEVICES {
            return refuse(format!(
                "its hosts need {devices} network devices (one for each link of a host that forwards, and one for each host with offloads); one machine can have {DEVICES}, so give them machines of their own"
            ));
        }
        Ok(())
    }

    /// The order with the values that are only known now.
    fn complete(&self, kernel: &Kernel, directory: &Directory) -> Order {
        let mut order = self.order.clone();
        order.directory = directory.path().to_string_lossy().into_owned();
        order.start = START;
        order.align = (self.timing == Timing::Dilated).then_some(EPOCH);
        let mut names = ALWAYS.to_vec();
        if order.hosts.iter().any(|host| host.v6.is_some()) {
            names.push(IPV6);
        }
        order.tools = modules::needed(&order, kernel);
        order.modules = names.into_iter().flat_map(|name| kernel.module(name)).collect();
        let controls = kernel.congestion_controls().into_iter();
        order.congestion = controls.map(|(name, paths)| CongestionModule { name, paths }).collect();
        order
    }

    fn boot_line(&self) -> Vec<String> {
        let mtu = self.order.hosts.iter().map(|host| host.mtu).max().unwrap_or(1500) as usize + HEADER - 14;
        let console = match self.console {
            Console::File => "con0=null,fd:1",
            Console::Terminal | Console::Keys => "con0=fd:0,fd:1",
        };
        // The kernel's messages appear in the console's last lines. A panic is printed in any case.
        let voice = if self.console == Console::Terminal { "loglevel=0" } else { "quiet" };
        let words = [
            &format!("mem={}M", self.memory >> 20),
            "rootfstype=hostfs",
            "ro",
            // The kernel's directory, by a path that is the same in every run.
            &format!("init=/proc/self/cwd/{AGENT}"),
            // It would be mounted over the machine's /dev, where that directory is.
            "devtmpfs.mount=0",
            "con=null",
            console,
            voice,
            // Leaves out initialisation that waits for a clock that stands still, or that inspects the machine. Also JFS, which is unused: with each
            // module that is loaded, User-Mode Linux maps the kernel's own memory again, page by page, and JFS's tables are 1,400 of 1,600 pages.
            "initcall_blacklist=raid6_select_algo,calibrate_xor_blocks,rng_init,init_jfs_fs",
            // Leaves out six hundred unused terminals. For each, the kernel would try to start /sbin/hotplug, as a process of the machine.
            "pty.legacy_count=0",
            "ssl=none",
            "lpj=50000000",
            // No security modules: without policies they do nothing, but they are called for every packet and file.
            "lsm=capability",
            "umid=guest",
            &format!("vec0:transport=fd,fd={NIC},mtu={mtu}"),
        ];
        let mut words = words.map(str::to_owned).to_vec();
        words.extend(self.order.devices().map(|own| {
            let (number, mtu) = (own.number, own.mtu);
            let mac = own.mac.map(|byte| format!("{byte:02x}")).join(":");
            if own.card {
                // The transport that has headers for offloads; native/clockshim/sockets.c knows the name.
                format!("vec{number}:transport=raw,ifname=card{number},mtu={mtu},mac={mac}")
            } else {
                format!("vec{number}:transport=fd,fd={},mtu={mtu},mac={mac}", descriptor(number))
            }
        }));
        if self.console == Console::Terminal {
            words.push(format!("con1=fd:{SIZES},null"));
        }
        words.extend((0..self.order.terminals).map(|number| {
            let [typed, printed] = terminal_descriptors(number);
            format!("con{}=fd:{typed},fd:{printed}", FIRST + number)
        }));
        words
    }
}

impl Machine {
    /// The version of its kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Boots a guest and returns at once; it is ready when [`crate::LockStep::boot`] or [`Machine::wait_ready`] has returned.
    ///
    /// # Errors
    /// If its configuration is invalid, or a system call fails.
    pub fn boot(kernel: &Kernel, config: &MachineConfig) -> Result<Self, GuestError> {
        config.check()?;
        let directory = Directory::create()?;
        let order = config.complete(kernel, &directory);
        let json = serde_json::to_vec(&order).map_err(std::io::Error::other);
        let json = json.doing(|| "write a guest's order".to_owned())?;
        fs::write(directory.path().join(ORDER), json).doing(|| "write a guest's order".to_owned())?;

        let page = Arc::new(Page::create()?);
        prepare_page(&page, config);
        let doing = || "make a guest's network device".to_owned();
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (bell, far) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags).doing(doing)?;
        let share = match config.cpu {
            Some(CpuLimit { share, period }) => {
                let name = directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
                let problem = |error| GuestError::Share { name: config.name.clone(), source: error };
                Some(CpuShare::create(&name, share, period).map_err(problem)?)
            }
            None => None,
        };
        let terminal = match config.console {
            Console::Terminal => tcgetattr(std::io::stdin()).ok(),
            Console::File | Console::Keys => None,
        };
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .doing(|| "make a pipe for the size of a guest's terminal".to_owned())?;
        let terminals = door::pipes(directory.path(), config.order.terminals)?;
        let ends =
            Ends { nic: &far, page: page.fd(), sizes: &read, share: share.as_ref(), terminals: &terminals };
        let child = spawn(kernel, config, &directory, &ends)?;
        Ok(Machine {
            name: config.name.clone(),
            kernel: kernel.version.clone(),
            child,
            ended: None,
            page,
            bell: Some(bell),
            share,
            held: Cell::new(None),
            directory,
            offset: 0,
            clocks: config.clocks,
            sizes: terminal.is_some().then(|| write.into()),
            terminal,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its network device, for dilated time; only once, after [`Machine::wait_ready`].
    pub fn take_nic(&mut self) -> Option<Nic> {
        let bell = self.bell.take()?;
        Some(Nic::new(Arc::clone(&self.page), bell, self.offset, self.clocks))
    }

    /// The kernel's process on the machine.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file in the directory that it writes to.
    pub fn shared(&self, name: &str) -> std::path::PathBuf {
        self.directory.shared(name)
    }

    /// The door to the host with this number, for commands with this environment.
    pub fn door(&self, host: u32, environment: Vec<(String, String)>) -> Door {
        Door::new(self.directory.path(), host, environment)
    }

    /// Its last console output.
    pub fn console_tail(&self) -> String {
        self.directory.console_tail()
    }

    /// Whether its hosts are set up.
    pub fn is_ready(&self) -> bool {
        self.shared(READY).exists()
    }

    /// Entries into user mode, turns given away, frames sent and received so far; for lock-step.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            entries: read(&self.page.entries),
            handovers: read(&self.page.handovers),
            sent: read(&self.page.sent),
            received: read(&self.page.received),
        }
    }

    /// Types at its console, if that is [`Console::Keys`].
    pub fn press(&mut self, keys: &[u8]) {
        if let Some(stdin) = &mut self.child.stdin {
            // A guest that has ended reads no more.
            let _ = std::io::Write::write_all(stdin, keys);
        }
    }

    /// Reports a new size of its terminal, if it has one: see [`Console::Terminal`].
    pub fn resize(&mut self, rows: u16, columns: u16) {
        if let Some(sizes) = &mut self.sizes {
            // A guest that reads no more is ending.
            let _ = std::io::Write::write_all(sizes, format!("{rows} {columns}\n").as_bytes());
        }
    }

    /// Whether its kernel still runs.
    pub fn is_alive(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = look(&mut self.child);
        }
        self.ended.is_none()
    }

    /// What happened to a guest that has died, or that could not be set up.
    pub fn post_mortem(&mut self) -> GuestError {
        let name = self.name.clone();
        if let Ok(reason) = fs::read_to_string(self.shared(FAILURE)) {
            return GuestError::SetUp { name, reason };
        }
        let how = match self.ended {
            None => "has stopped working".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                // A panic ends in abort(), which the kernel's own handler turns into an exit code.
                (Some(134), _) | (None, Some(libc::SIGABRT)) => "panicked".to_owned(),
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was killed by signal {signal}"),
                (None, None) => "ended".to_owned(),
            },
        };
        GuestError::Died { name, how, console: self.console_tail() }
    }

    /// Whether it has written its report, and is about to end.
    pub fn has_reported(&self) -> bool {
        self.shared(REPORT).exists()
    }

    /// Whether it has ended by itself, with a report.
    pub fn has_finished(&mut self) -> bool {
        !self.is_alive() && self.ended.is_some_and(|status| status.success()) && self.has_reported()
    }

    /// Its report.
    ///
    /// # Errors
    /// If there is none.
    pub fn report(&mut self) -> Result<Report, GuestError> {
        let bytes = match fs::read(self.shared(REPORT)) {
            Ok(bytes) => bytes,
            Err(_) => return Err(self.post_mortem()),
        };
        let report = serde_json::from_slice(&bytes).map_err(std::io::Error::other);
        report.doing(|| format!("understand the report of guest {}", self.name))
    }

    /// Sends a signal to the kernel's process, if it was still there when last looked for.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }
}

/// Counters of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Entries into user mode.
    pub entries: u64,
    /// Turns given away.
    pub handovers: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.is_alive() {
            end(&mut self.child);
        }
        if let Some(terminal) = &self.terminal {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, terminal);
        }
    }
}

/// How a kernel's process has ended, if it has. What is left of its group is killed then; until that is done the process is not reaped, so that
/// no other group can have its number.
fn look(kernel: &mut Child) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let found = waitid(WaitId::Pid(rustix::process::Pid::from_child(kernel)), options);
    found.ok().flatten().and_then(|_| end(kernel))
}

/// Kills a kernel's process, waits for its end, and returns how it has ended. With it goes its group: while it boots, a kernel tries out ptrace(2)
/// with a process of its own, which would be left behind. At a terminal it makes that group itself (setsid(2)), shortly after it was started; until
/// then it has none.
fn end(kernel: &mut Child) -> Option<ExitStatus> {
    let _ = killpg(Pid::from_raw(kernel.id() as i32), Signal::SIGKILL);
    let _ = kernel.kill();
    kernel.wait().ok()
}

fn prepare_page(page: &Page, config: &MachineConfig) {
    let relaxed = Ordering::Relaxed;
    page.seed.store(config.seed, relaxed);
    page.epoch.store(EPOCH - START, relaxed);
    page.cost.store(COST, relaxed);
    page.nic.store(NIC, relaxed);
    page.interval.store(config.order.cards.map_or(0, |cards| cards.interval), relaxed);
    for (own, device) in config.order.devices().zip(&page.devices) {
        device.fd.store(descriptor(own.number), relaxed);
        device.card.store(own.card.into(), relaxed);
        device.vlan.store(own.vlan.into(), relaxed);
        device.rate.store(own.rate.unwrap_or(0), relaxed);
        device.framing.store(own.framing, relaxed);
    }
    match config.timing {
        Timing::LockStep => {
            page.mode.store(MODE_LOCKSTEP, relaxed);
            page.tsc.store(1, relaxed);
            // Until the run's start it runs by itself, and nothing answers what it sends.
            page.horizon.store(START, relaxed);
            page.lookahead.store(NEVER, relaxed);
        }
        Timing::Dilated => {
            page.size_rings(config.fastest);
            page.mode.store(MODE_DILATED, relaxed);
            page.tsc.store(config.own_tsc.into(), relaxed);
            // It boots as fast as it can.
            write_pace(page, &Pace::new(host_now(), Tdf::REAL), |shown| shown);
        }
    }
}

/// The descriptors for the kernel's process.
struct Ends<'a> {
    nic: &'a OwnedFd,
    page: BorrowedFd<'a>,
    sizes: &'a OwnedFd,
    share: Option<&'a CpuShare>,
    /// What is typed at each terminal, and what is printed.
    terminals: &'a [[File; 2]],
}

fn spawn(
    kernel: &Kernel,
    config: &MachineConfig,
    directory: &Directory,
    ends: &Ends<'_>,
) -> Result<Child, GuestError> {
    let doing = || format!("start {}", kernel.path.display());
    let path = directory.path();
    let mut command = Command::new(&kernel.path);
    command.args(config.boot_line()).current_dir(path).env_clear();
    command.env("LD_PRELOAD", path.join(CLOCKSHIM)).env("WARPLINE_CLOCKSHIM", PAGE.to_string());
    // The guest always has the same name, but its files are in a directory of their own.
    command.env("HOME", path).env("TMPDIR", MEMORY);
    if config.console != Console::Terminal {
        let console = File::create(path.join(CONSOLE)).doing(doing)?;
        let again = console.try_clone().doing(doing)?;
        let keys = if config.console == Console::Keys { Stdio::piped() } else { Stdio::null() };
        command.stdin(keys).stdout(console).stderr(again).process_group(0);
    } else {
        command.stderr(Stdio::null());
        if let Ok(term) = std::env::var("TERM") {
            command.env("TERM", term);
        }
    }
    let mut own = vec![(ends.nic.as_fd(), NIC), (ends.page, PAGE), (ends.sizes.as_fd(), SIZES)];
    // All network devices of a guest ring the same bell.
    own.extend(config.order.devices().map(|own| (ends.nic.as_fd(), descriptor(own.number))));
    for (number, pipes) in ends.terminals.iter().enumerate() {
        let to = terminal_descriptors(number as u32);
        own.extend(pipes.iter().map(AsFd::as_fd).zip(to));
    }
    let parent = std::process::id();
    let doors = ends.share.map(CpuShare::doors).transpose().doing(doing)?.unwrap_or_default();
    // In a process with many open files, what one number is to stand for may itself be at another of these numbers, and would be replaced
    // before its turn. Copies above all of them are never in the way. They are closed with the command.
    let above = own.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
    let copy = |from: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(from, above);
    let own: rustix::io::Result<Vec<(OwnedFd, i32)>> =
        own.into_iter().map(|(from, to)| copy(from).map(|from| (from, to))).collect();
    let doors: rustix::io::Result<Vec<OwnedFd>> = doors.iter().map(|door| copy(door.as_fd())).collect();
    let (own, doors) = (own.doing(doing)?, doors.doing(doing)?);
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe {
        command.pre_exec(move || {
            // SAFETY: the copies are open here, and none is at a number that is replaced.
            for (from, to) in &own {
                nix::errno::Errno::result(libc::dup2(from.as_raw_fd(), *to))?;
            }
            for door in &doors {
                // Applies to this process and all that it starts.
                nix::unistd::write(door, b"0")?;
            }
            personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE)?;
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have ended before that was set.
            if nix::unistd::getppid().as_raw() as u32 != parent {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
    command.spawn().map_err(allowed).doing(doing)
}

/// Says what may forbid to start a guest: the filter of a container, whose addresses must not be random.
fn allowed(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => std::io::Error::new(
            error.kind(),
            format!(
                "{error}; a guest's addresses are not random (personality), which Docker allows with --security-opt seccomp=unconfined"
            ),
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{LEAST_RING, RING};

    #[test]
    fn the_rings_of_a_dilated_guest_are_sized_by_its_fastest_link() {
        let size = |timing| {
            let config = MachineConfig {
                name: "g".to_owned(),
                kernel: None,
                memory: LEAST_MEMORY,
                seed: 1,
                timing,
                fastest: Some(Rate::from_bps(100_000_000_000)),
                cpu: None,
                clocks: Clocks::default(),
                own_tsc: false,
                console: Console::File,
                order: Order::default(),
            };
            let page = Page::create().unwrap();
            prepare_page(&page, &config);
            page.receive.bytes.load(Ordering::Relaxed) as usize
        };
        assert_eq!([Timing::LockStep, Timing::Dilated].map(size), [LEAST_RING, RING]);
    }

    #[test]
    fn a_kernel_without_a_group_of_its_own_is_ended() {
        let mut kernel = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(look(&mut kernel), None);
        assert_eq!(end(&mut kernel).unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_kernel_that_ends_leaves_none_of_its_group_behind() {
        let mut command = Command::new("sh");
        // The other process has the pipe, so its end is the end of what can be read.
        command.args(["-c", "sleep 600 & exit 3"]).process_group(0).stdout(Stdio::piped());
        let mut kernel = command.spawn().unwrap();
        let mut other = kernel.stdout.take().unwrap();
        let mut found = look(&mut kernel);
        while found.is_none() {
            crate::time::pause();
            found = look(&mut kernel);
        }
        assert_eq!(found.unwrap().code(), Some(3));
        let mut read = Vec::new();
        assert_eq!(std::io::Read::read_to_end(&mut other, &mut read).unwrap(), 0);
    }
}
