//! The test bed of calibration: two hosts, and between them an emulated link, or only the ports that packets would use to reach it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;
use warpline_core::{LinkId, TimeDelta, Timestamp};
use warpline_net::{Control, LinkConfig, LinkStats};

use crate::audit::Audit;
use crate::clock::RealClock;
use crate::crossing::Crossing;
use crate::emulator::{Emulator, EmulatorConfig, EmulatorError};
use crate::host::{HostConfig, HostError, Hosts};
use crate::netlink::{Netlink, NetlinkError, VethEnd};
use crate::pool::Pool;
use crate::port::tun::TunPort;
use crate::port::{Arrival, LivePort, PortError, PortId};
use crate::privilege;
use crate::program::{Changes, Program, ProgramConfig, State};

/// The hosts' addresses: source and sink.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
/// The sinks' port: one that needs no privilege, which an ordinary user's programs do not have.
pub const PORT: u16 = 9009;
/// Time between two checks of whether the user wants to stop.
const LOOK: TimeDelta = TimeDelta::from_millis(100);

/// Why a measurement was not made.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// The hosts could not be made.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The emulator stopped.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A source failed.
    #[error("the measuring program ({words}) failed: {said}")]
    Source {
        /// Its arguments.
        words: String,
        /// Its output.
        said: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}

fn system<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> BedError {
    move |source| BedError::System { what, source: source.into() }
}

/// Results of a measurement besides those that the source reports.
#[derive(Clone, Debug, Default)]
pub struct Emulated {
    /// How well the emulator kept pace.
    pub audit: Audit,
    /// Counters of the links, there and back.
    pub links: [LinkStats; 2],
}

/// Two hosts, and the program that generates load on them.
#[derive(Debug)]
pub struct Bed<'a> {
    hosts: Hosts,
    /// Generates load when its first argument is `load`.
    program: PathBuf,
    stop: &'a AtomicBool,
    changes: Changes,
}

impl<'a> Bed<'a> {
    /// Makes the hosts. `program` is this program, which calls [`crate::load::run`] when run as `PROGRAM load WORDS...`. When `stop` becomes true, the
    /// current measurement ends soon.
    ///
    /// # Errors
    /// If the system does not allow namespaces.
    pub fn new(program: PathBuf, stop: &'a AtomicBool) -> Result<Self, BedError> {
        let configs = [("source", 0), ("sink", 1)].map(|(name, number)| HostConfig {
            name: name.to_owned(),
            v4: ADDRESSES[number],
            v6: ADDRESSES[number].to_ipv6_mapped(),
            mtu: 1500,
        });
        let hosts = Hosts::create("warpline calibrate", &configs)?;
        let changes = Changes::new().map_err(system("watch programs"))?;
        Ok(Bed { hosts, program, stop, changes })
    }

    /// The sink's address.
    pub fn sink(&self) -> Ipv4Addr {
        ADDRESSES[1]
    }

    /// Lets TCP on the hosts buffer this many bytes to send and to receive.
    ///
    /// # Errors
    /// If the hosts cannot be reached.
    pub fn limit_windows(&self, [send, receive]: [u32; 2]) -> Result<(), BedError> {
        for host in [0, 1] {
            let set = || {
                // If this fails a fast and long link is not filled, and the result shows it.
                let _ = std::fs::write("/proc/sys/net/ipv4/tcp_wmem", format!("4096 65536 {send}"));
                let _ = std::fs::write("/proc/sys/net/ipv4/tcp_rmem", format!("4096 131072 {receive}"));
            };
            let entered = self.hosts.namespace(host).within(set);
            entered.map_err(|source| HostError::NetNs { host: "a measured one".to_owned(), source })?;
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Prepares a program on a host. Returns it with the files for its output and errors.
    fn program(&self, host: usize, words: &[String]) -> Result<(Program, File, File), BedError> {
        let file = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
        let said = file("stdout").map_err(system("create a file for a program's output"))?;
        let complaint = file("stderr").map_err(system("create a file for a program's output"))?;
        let copy =
            |file: &File| file.try_clone().map_err(system("duplicate the file for a program's output"));
        let load = [self.program.clone().into_os_string(), OsString::from("load")];
        let config = ProgramConfig {
            words: load.into_iter().chain(words.iter().map(OsString::from)).collect(),
            environment: Vec::new(),
            directory: None,
            stdout: copy(&said)?,
            stderr: copy(&complaint)?,
            ordinary: privilege::in_user_namespace(),
        };
        let namespace = self.hosts.namespace(host);
        let program = Program::prepare(config, namespace, self.hosts.session(), &self.changes)
            .map_err(system("start a measuring program"))?;
        Ok((program, said, complaint))
    }

    /// Runs a source on the first host and a sink on the second, while `carry` carries their packets until the source ends, which
    /// `carry` learns from a return value of true. Returns what the source measured.
    fn measure<T: DeserializeOwned>(
        &self,
        sink: &[String],
        source: &[String],
        carry: impl FnOnce(&mut dyn FnMut() -> bool, &Changes) -> Result<(), BedError>,
    ) -> Result<T, BedError> {
        let mut sink = if sink.is_empty() { None } else { Some(self.program(1, sink)?) };
        let (program, mut said, mut complaint) = self.program(0, source)?;
        if let Some((sink, ..)) = &sink {
            sink.start();
        }
        program.start();
        let mut ended = || {
            self.changes.clear();
            self.stopped() || !matches!(program.state(), State::Running | State::Waiting)
        };
        carry(&mut ended, &self.changes)?;
        if self.stopped() {
            return Err(BedError::Stopped);
        }
        let read = |file: &mut File| {
            let mut text = String::new();
            let _ = file.rewind();
            file.read_to_string(&mut text).map(|_| text).map_err(system("read a program's output"))
        };
        let text = read(&mut said)?;
        serde_json::from_str(&text).map_err(|_| {
            let why = |program: &Program, complaint: &mut File| match (read(complaint), program.state()) {
                (Ok(text), _) if !text.trim().is_empty() => text.trim().to_owned(),
                (_, State::NotStarted(why)) => why,
                (_, State::Ended(status)) => format!("it ended with {status}"),
                _ => "it printed nothing".to_owned(),
            };
            let mut said = why(&program, &mut complaint);
            // A sink runs until it is killed: if it has ended, that is why the source failed.
            if let Some((sink, _, complaint)) = &mut sink
                && !matches!(sink.state(), State::Running | State::Waiting)
            {
                said = format!("{said} (the sink: {})", why(sink, complaint));
            }
            BedError::Source { words: source.join(" "), said }
        })
    }

    /// Measures over emulated links, there and back.
    ///
    /// # Errors
    /// If the emulator or a program fails, or the user asked to stop.
    pub fn emulated<T: DeserializeOwned>(
        &self,
        links: [&LinkConfig; 2],
        config: EmulatorConfig,
        sink: &[String],
        source: &[String],
    ) -> Result<(T, Emulated), BedError> {
        let (mut network, mut crossing) = Crossing::network(links, 1);
        let mut emulator = Emulator::new(config);
        for port in self.hosts.ports()? {
            emulator.add_port(Box::new(port));
        }
        emulator.note_offloads(&self.hosts.offloads);
        let measured = self.measure(sink, source, |ended, changes| {
            emulator.restart_clock();
            loop {
                let until = emulator.clock().now() + LOOK;
                let mut done = false;
                emulator.run(&mut network, &mut crossing, until, &[changes.fd()], |turn| {
                    done |= turn.woken && ended();
                    if done { Control::Stop } else { Control::Continue }
                })?;
                if done || ended() {
                    return Ok(());
                }
            }
        });
        let audit = emulator.audit();
        let links = [0, 1].map(|link| network.link_stats(LinkId(link)));
        Ok((measured?, Emulated { audit, links }))
    }

    /// Measures over the same ports without an emulated network: packets from one port leave by the other at once.
    ///
    /// # Errors
    /// If a port or a program fails, or the user asked to stop.
    pub fn forwarded<T: DeserializeOwned>(&self, sink: &[String], source: &[String]) -> Result<T, BedError> {
        self.forward(&mut self.hosts.ports()?, sink, source)
    }

    /// Measures while packets from one of two ports leave by the other.
    fn forward<T: DeserializeOwned>(
        &self,
        ports: &mut [impl LivePort],
        sink: &[String],
        source: &[String],
    ) -> Result<T, BedError> {
        self.measure(sink, source, |ended, changes| {
            let mut forwarder = Forwarder::new();
            loop {
                if forwarder.turn(ports, changes)? && ended() || self.stopped() {
                    return Ok(());
                }
            }
        })
    }
}

/// The name, in both hosts, of an interface other than the hosts' own.
const OTHER: &str = "other";

impl Bed<'_> {
    /// Routes packets between the hosts over the existing interface [`OTHER`].
    fn detour(&self, host: usize) -> Result<(), BedError> {
        let name = |source| HostError::NetNs { host: "a measured one".to_owned(), source };
        let set_up = || -> Result<(), NetlinkError> {
            let mut netlink = Netlink::open()?;
            netlink.set_up(OTHER, true)?;
            netlink.add_route(ADDRESSES[1 - host].into(), 32, OTHER, None)
        };
        let done = self.hosts.namespace(host).within(set_up).map_err(name)?;
        Ok(done.map_err(|source| HostError::Netlink { host: "a measured one".to_owned(), source })?)
    }

    /// Measures over a veth pair, with none of our programs between the hosts.
    ///
    /// # Errors
    /// If it cannot be made or a program fails, or the user asked to stop.
    pub fn wired<T: DeserializeOwned>(&self, sink: &[String], source: &[String]) -> Result<T, BedError> {
        let fail = |source| HostError::NetNs { host: "a measured one".to_owned(), source };
        let link = |source| HostError::Netlink { host: "a measured one".to_owned(), source };
        let end = |host: usize, number| VethEnd {
            name: OTHER,
            mac: [2, b'w', b'l', 0, 0, number],
            namespace: Some(self.hosts.namespace(host).fd()),
        };
        let make = || Netlink::open()?.add_veth(&end(0, 1), &end(1, 2), 1500);
        self.hosts.namespace(0).within(make).map_err(fail)?.map_err(link)?;
        let measured = self.detour(0).and_then(|()| self.detour(1)).and_then(|()| {
            self.measure(sink, source, |ended, changes| {
                while !ended() {
                    changes.wait(LOOK);
                }
                Ok(())
            })
        });
        let remove = || Netlink::open()?.delete(OTHER);
        self.hosts.namespace(0).within(remove).map_err(fail)?.map_err(link)?;
        measured
    }

    /// Measures over two TUN devices: packets read from one are written to the other at once.
    ///
    /// # Errors
    /// Without `/dev/net/tun`, or if a program fails, or the user asked to stop.
    pub fn tunnelled<T: DeserializeOwned>(&self, sink: &[String], source: &[String]) -> Result<T, BedError> {
        let fail = |source| HostError::NetNs { host: "a measured one".to_owned(), source };
        let mut ports = Vec::new();
        for host in [0, 1] {
            ports.push(self.hosts.namespace(host).within(|| TunPort::open(OTHER, 1500)).map_err(fail)??);
            self.detour(host)?;
        }
        self.forward(&mut ports, sink, source)
    }
}

/// Forwards arriving packets.
struct Forwarder {
    clock: RealClock,
    pool: Pool,
    arrivals: Vec<Arrival>,
    handles: Vec<u32>,
}

impl Forwarder {
    fn new() -> Self {
        let pool = Pool::new(1500, 1 << 26);
        Forwarder { clock: RealClock::start(), pool, arrivals: Vec::new(), handles: Vec::new() }
    }

    /// Forwards what has arrived, or waits for something. Returns whether a program may have ended.
    fn turn<P: LivePort>(&mut self, ports: &mut [P], changes: &Changes) -> Result<bool, BedError> {
        let now: Timestamp = self.clock.now();
        let mut idle = true;
        for from in 0..ports.len() {
            let id = PortId(from as u32);
            ports[from].receive(id, &self.clock, now, &mut self.pool, &mut self.arrivals)?;
            if self.arrivals.is_empty() {
                continue;
            }
            idle = false;
            self.handles.clear();
            self.handles.extend(self.arrivals.drain(..).map(|arrival| arrival.handle));
            ports[1 - from].transmit(&mut self.pool, &self.handles)?;
            for &handle in &self.handles {
                self.pool.release(handle);
            }
        }
        self.pool.recycle();
        if !idle {
            return Ok(false);
        }
        let fds = ports.iter().filter_map(|port| port.fd()).chain([changes.fd()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                Ok(fds.last().is_none_or(|changes| !changes.revents().is_empty()))
            }
            Err(errno) => Err(system("wait for packets")(errno)),
        }
    }
}
