//! The emulator: the loop that moves live packets through a network, by the real clock.
//!
//! Each turn takes the current time as its horizon and reads all ports. Arrivals are sorted by their timestamps;
//! the network is run up to each timestamp and the packet is sent into it there. So a late wake-up delays nothing: it is as if
//! every packet had been seen at the moment it arrived. Then the network runs up to the horizon, departing packets go to the ports
//! in batches, and the emulator waits for the next event or packet.
//!
//! A timestamp can still lie before the network's current time: the kernel stamps a packet, and puts it into the ring a
//! microsecond later, and a turn may begin and end in between. Such a packet is sent now, and its lateness is subtracted from its
//! time on the first link, as far as possible ([`warpline_net::Port::send_at`]); the audit counts these.
//!
//! Simulated hosts and the rules for live packets, which live beside the network, are the caller's [`World`].

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::BorrowedFd;

use nix::sys::sysinfo::sysinfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use warpline_core::dilation::Tdf;
use warpline_core::{Body, Dscp, Ecn, EndpointId, Frame, Packet, TimeDelta, TimerId, Timestamp};
use warpline_net::{Control, Hosts, Network, Port};
use warpline_results::live::AuditSummary;

use crate::audit::{Audit, Ledger, PortAudit};
use crate::clock::{Handover, LagPolicy, Oversleep, Precedence, RealClock, Waiting, be_punctual, host_now};
use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::port::{Arrival, BATCH, LivePort, PortCounters, PortError, PortId};

/// Settings of an emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatorConfig {
    /// How it waits.
    pub waiting: Waiting,
    /// Whether to request priority over ordinary threads, so that a busy machine does not make it late.
    pub precedence: bool,
    /// How many other threads the run keeps busy, as far as is known, each of which wants a core of its own.
    pub others: usize,
    /// What to do if it cannot keep up.
    pub lag: LagPolicy,
    /// Packets that leave later than this after they were due count as late.
    pub late: TimeDelta,
    /// Largest datagram in bytes.
    pub mtu: u32,
    /// Most bytes of memory for packets in the network.
    pub memory: usize,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        EmulatorConfig {
            waiting: Waiting::default(),
            precedence: true,
            others: 0,
            lag: LagPolicy::BestEffort,
            late: TimeDelta::from_millis(1),
            mtu: 1500,
            memory: packet_memory(),
        }
    }
}

/// A quarter of the memory that this machine or container has, and a gibibyte at least, in bytes. A fast and long network with full queues holds
/// gigabytes. Memory is only taken for packets that are there.
fn packet_memory() -> usize {
    const LEAST: u64 = 1 << 30;
    /// What limits a container, by control groups of version 2 and 1.
    const LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let machine = sysinfo().map_or(0, |info| info.ram_total());
    let limits = LIMITS.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    let all: u64 = limits.fold(machine, u64::min);
    (all / 4).max(LEAST) as usize
}

/// Why an emulator stopped before its time.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// It could not keep up, and was configured to stop in that case.
    #[error(
        "at {at} a packet was {by} late, which is more than the limit of {limit}: the machine is too slow for this network, or busy \
         with something else; lower the rates, raise the limit, or let it go on and count (best effort)"
    )]
    Lag {
        /// When the packet was due.
        at: Timestamp,
        /// How late it was.
        by: TimeDelta,
        /// The limit.
        limit: TimeDelta,
    },
    /// Waiting failed.
    #[error("cannot wait for packets: {0}")]
    Wait(std::io::Error),
}

/// Why an emulator returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The end time has come.
    Reached,
    /// The observer asked to stop.
    Stopped,
}

/// What is at the ends of the network's routes: rules for live packets, and simulated hosts.
pub trait World {
    /// A datagram has come in from outside. The world must send it into the network ([`Gate::packet`], then
    /// `port.send_at(arrival.at, ..)` and [`Gate::note_behind`]), or give it back with [`Gate::release`].
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>);
    /// A packet has left the network at the endpoint that it is addressed to. The world must send a frame to a port with
    /// [`Gate::transmit`], or give it back with [`Gate::release`].
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, port: &mut Port<'_>);
    /// A timer has fired, as in [`Hosts::handle_timeout`].
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, gate: &mut Gate, port: &mut Port<'_>);
    /// `copy` is a copy of the frame `of`, made since a link has copied the packet or changed a bit of it. What the world knows of the one holds for
    /// the other.
    fn handle_copy(&mut self, of: u32, copy: u32) {
        let _ = (of, copy);
    }
    /// A link has lost the packet with this frame, which is released after the call.
    fn handle_loss(&mut self, handle: u32) {
        let _ = handle;
    }
    /// A packet is certain to leave the network in its present form. Returns the port that its frame will then leave by, if [`handle_packet`]
    /// will do no more than that, and writes the future datagram to `out`.
    ///
    /// [`handle_packet`]: Self::handle_packet
    fn foresee(&mut self, packet: &Packet, pool: &Pool, out: &mut Vec<u8>) -> Option<PortId> {
        let _ = (packet, pool, out);
        None
    }
}

/// The world's access to bytes and ports.
#[derive(Debug)]
pub struct Gate {
    pool: Pool,
    outgoing: Outgoing,
    /// By the number of the frame: how often it has been handed out ahead of its time, once for each copy in the network.
    ahead: Vec<u32>,
    /// Frames that were seen too late for the network to make up for all of it, and by how much they are behind.
    behind: BTreeMap<u32, TimeDelta>,
    /// The frames that were copied as they left the network in this turn, by their copies.
    copies: BTreeMap<u32, u32>,
}

/// Which frames have been handed out ahead of their time.
pub(crate) struct Early<'a> {
    ahead: &'a mut [u32],
    copies: &'a BTreeMap<u32, u32>,
}

impl Early<'_> {
    /// Whether this frame, or the one that it is a copy of, has been handed out; once for each time that it was.
    pub(crate) fn take(&mut self, handle: u32) -> bool {
        let sent = self.copies.get(&handle).copied().unwrap_or(handle);
        match self.ahead.get_mut(sent as usize) {
            Some(ahead) if *ahead > 0 => {
                *ahead -= 1;
                true
            }
            _ => false,
        }
    }
}

impl Gate {
    /// Access to these bytes, and this many ports.
    pub(crate) fn new(pool: Pool, ports: usize) -> Self {
        let (behind, copies) = (BTreeMap::new(), BTreeMap::new());
        Gate { pool, outgoing: Outgoing::new(ports), ahead: Vec::new(), behind, copies }
    }
    /// The bytes, the frames to leave by each port, and what is known of them.
    pub(crate) fn parts(&mut self) -> (&mut Pool, &mut Outgoing, Early<'_>) {
        (&mut self.pool, &mut self.outgoing, Early { ahead: &mut self.ahead, copies: &self.copies })
    }
    /// Frees the bytes of what has left the network.
    pub(crate) fn recycle(&mut self) {
        self.pool.recycle();
        self.copies.clear();
    }
    /// The bytes of live packets.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
    /// The bytes of live packets, to create or change some.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }
    /// The packet that stands for a datagram to endpoint `to`: its size, ECN field, class and flow are those of
    /// the header.
    #[inline]
    pub fn packet(&self, handle: u32, to: EndpointId) -> Packet {
        let header = self.pool.header(handle);
        Packet {
            flow: warpline_core::FlowId(header.flow),
            to,
            size: header.len,
            ecn: header.ecn,
            class: header.class(),
            damaged: false,
            dscp: Dscp::new(header.dscp).unwrap_or_default(),
            id: 0,
            body: Body::Frame(Frame { handle }),
        }
    }
    /// Records that a frame is behind by the part that [`warpline_net::Port::send_at`] could not make up for: it will count as late.
    #[inline]
    pub fn note_behind(&mut self, handle: u32, by: TimeDelta) {
        if !by.is_zero() {
            self.behind.insert(handle, by);
        }
    }
    /// Records that a frame's bytes have been handed out ahead of its time ([`World::foresee`]): it is not sent again.
    pub fn note_ahead(&mut self, handle: u32) {
        if self.ahead.len() <= handle as usize {
            self.ahead.resize(handle as usize + 1, 0);
        }
        self.ahead[handle as usize] += 1;
    }
    /// Sends the frame in `packet`, which left the network at `now`, from a port; its header is marked if the network
    /// has marked it. A packet without a frame is left alone.
    #[inline]
    pub fn transmit(&mut self, now: Timestamp, packet: &Packet, port: PortId) {
        let Body::Frame(Frame { handle }) = packet.body else { return };
        if packet.ecn == Ecn::Ce && self.pool.header(handle).ecn != Ecn::Ce {
            self.pool.mark_congestion(handle);
        }
        let behind = if self.behind.is_empty() { None } else { self.behind.remove(&handle) };
        let due = behind.map_or(now, |by| Timestamp::ZERO + (now - Timestamp::ZERO).saturating_sub(by));
        self.outgoing.push(port, due, handle);
    }
    /// Makes a copy of a frame that has left the network, to leave by a port in its place: it counts as late as that one.
    pub fn stand_in(&mut self, of: u32) -> Option<u32> {
        let copy = self.pool.copy(of)?;
        if let Some(by) = self.behind.remove(&of) {
            self.behind.insert(copy, by);
        }
        Some(copy)
    }
    /// Makes a copy of a frame that has left the network.
    fn copy(&mut self, of: u32) -> Option<u32> {
        let copy = self.pool.copy(of)?;
        let first = self.copies.get(&of).copied().unwrap_or(of);
        self.copies.insert(copy, first);
        Some(copy)
    }
    /// Gives back the frame of a packet without sending it.
    pub fn release(&mut self, handle: u32) {
        self.behind.remove(&handle);
        self.pool.release(handle);
    }
}

/// Lets the network call the world.
pub(crate) struct Adapter<'a, W> {
    pub(crate) world: &'a mut W,
    pub(crate) gate: &'a mut Gate,
}

impl<W: World> Hosts for Adapter<'_, W> {
    #[inline]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        self.world.handle_packet(now, packet, self.gate, port);
    }
    /// Changes a bit of the frame, or drops a packet without bytes. The bytes are those of a copy: captures still need the frame as it was before.
    fn handle_damaged(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        let Body::Frame(Frame { handle }) = packet.body else { return };
        if let Some(copy) = self.copy_frame(handle) {
            let bytes = self.gate.pool.datagram_mut(copy);
            packet.damage(bytes, bytes.len());
            let packet = Packet { body: Body::Frame(Frame { handle: copy }), ..*packet };
            self.world.handle_packet(now, &packet, self.gate, port);
        } else {
            self.world.handle_loss(handle);
        }
        self.gate.release(handle);
    }
    fn copy_frame(&mut self, handle: u32) -> Option<u32> {
        let copy = self.gate.copy(handle)?;
        self.world.handle_copy(handle, copy);
        Some(copy)
    }
    #[inline]
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        self.world.handle_timeout(now, timer, self.gate, port);
    }
}

/// What the observer of a run sees between two turns.
#[derive(Debug)]
pub struct Turn<'a, W> {
    /// The network, for its counters and records. To get the bytes of recorded frames, take the records of this turn
    /// now.
    pub network: &'a mut Network,
    /// The world.
    pub world: &'a mut W,
    /// The bytes of live packets: those of every frame that was in the network during this turn are still there.
    pub pool: &'a Pool,
    /// Whether one of the descriptors to wake for is readable. It is checked while waiting, and now and then when busy.
    pub woken: bool,
}

/// Ports, clock and bytes, ready to run a network.
#[derive(Debug)]
pub struct Emulator {
    config: EmulatorConfig,
    clock: RealClock,
    ports: Vec<Box<dyn LivePort>>,
    gate: Gate,
    arrivals: Vec<Arrival>,
    /// Whether the last turn had so many arrivals that there may be more.
    flood: bool,
    handles: Vec<u32>,
    ledger: Ledger,
    cpu_start: u64,
    /// When a packet last came in, on the machine's clock.
    active: u64,
    /// Whether a port may have something long before it says so.
    tells_late: bool,
    oversleep: Oversleep,
    handover: Handover,
    /// When the last wait ended, on the machine's clock, if it slept until shortly before its deadline.
    slept: Option<u64>,
    /// The deadline of the last wait, which may be a little ahead.
    target: Timestamp,
    /// The state of offloads, for the audit.
    offloads: String,
    /// The priority of the thread that runs it, from the first run on.
    precedence: Option<Precedence>,
    /// When all descriptors, and the priority, were last checked, on the machine's clock.
    looked: u64,
}

/// Counters of an emulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets that left.
    pub packets: u64,
    /// Those of them that left later than [`EmulatorConfig::late`] after they were due.
    pub late: u64,
    /// CPU time in nanoseconds.
    pub cpu: u64,
}

/// How long departures wait, in nanoseconds of the machine's time, while many arrivals are taken in.
const PATIENCE: u64 = 200_000;
/// They wait for this part of what counts as late, at most.
const PARTS: u64 = 5;
/// Arrivals between two looks at the clock: some tens of microseconds of work.
const PIECE: usize = 16;
/// For how long after the last packet, in the run's time, ports are looked at often that may have something before they say so.
const ALERT: TimeDelta = TimeDelta::from_secs(1);
/// How many times they are looked at while a packet is not late yet, and the shortest sleep between two looks, in nanoseconds of the machine's time.
const LOOKS: u64 = 4;
const LEAST_NAP: u64 = 50_000;
/// A nap before a turn takes this part of what counts as late, and at most that many nanoseconds of the machine's time.
const NAPS: u64 = 10;
const LONGEST_NAP: u64 = 5_000_000;
/// How often the descriptors to wake for are checked while there is no time to wait.
const LOOK: TimeDelta = TimeDelta::from_millis(20);

/// The length of a nap in nanoseconds, where packets that leave more than `late` nanoseconds late are too late; none if that leaves no time for one.
fn nap_length(late: u64) -> Option<u64> {
    let nanos = (late / NAPS).min(LONGEST_NAP);
    (nanos >= LEAST_NAP).then_some(nanos)
}

/// CPU time of this thread in nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Emulator {
    /// An emulator whose time starts now.
    pub fn new(config: EmulatorConfig) -> Self {
        Emulator {
            config,
            clock: RealClock::start(),
            ports: Vec::new(),
            gate: Gate::new(Pool::new(config.mtu, config.memory), 0),
            arrivals: Vec::new(),
            flood: false,
            handles: Vec::new(),
            ledger: Ledger::new(config.late),
            cpu_start: thread_time(),
            active: 0,
            tells_late: false,
            oversleep: Oversleep::UNKNOWN,
            handover: Handover::default(),
            slept: None,
            target: Timestamp::ZERO,
            offloads: String::new(),
            precedence: None,
            looked: host_now(),
        }
    }

    /// Adds a port.
    pub fn add_port(&mut self, port: Box<dyn LivePort>) -> PortId {
        self.tells_late |= port.tells_late();
        self.ports.push(port);
        self.gate.outgoing.add_port();
        PortId(self.ports.len() as u32 - 1)
    }

    /// Adds the state of offloads of some ports for the audit.
    pub fn note_offloads(&mut self, text: &str) {
        if !self.offloads.is_empty() && !text.is_empty() {
            self.offloads += "; ";
        }
        self.offloads += text;
    }

    /// The run's clock. Its time starts when the emulator is created, not when it is run.
    pub fn clock(&self) -> &RealClock {
        &self.clock
    }

    /// Gives up the thread's priority, when nothing needs to be punctual any more.
    pub fn relax(&mut self) {
        self.precedence = None;
    }

    /// Restarts the time: now is zero. For use before the first turn, after long preparations.
    pub fn restart_clock(&mut self) {
        self.begin_clock(host_now(), Tdf::REAL);
    }

    /// Restarts the time, dilated by `tdf`: it is zero when `CLOCK_MONOTONIC` shows `host`, in nanoseconds. Otherwise like
    /// [`Emulator::restart_clock`].
    pub fn begin_clock(&mut self, host: u64, tdf: Tdf) {
        self.clock = RealClock::begin(host, tdf);
        self.cpu_start = thread_time();
    }

    /// Announces that the dilation changes when `CLOCK_MONOTONIC` shows `host`.
    pub fn change_tdf(&mut self, host: u64, tdf: Tdf) {
        self.clock.change(host, tdf);
    }

    /// The counters so far, for a caller that watches the load. To be called on the thread that runs the emulator.
    pub fn load(&self) -> Load {
        let (packets, late) = self.ledger.counts();
        Load { packets, late, cpu: thread_time().saturating_sub(self.cpu_start) }
    }

    /// Runs `network` with `world` until `until`, or until the observer asks to stop. The observer is called after every turn: when
    /// a packet came in, when one was due, when a port was ([`LivePort::due`]), or when one of `wake` became readable.
    ///
    /// # Errors
    /// If a port fails, or if the run lags more than it may.
    pub fn run<W: World>(
        &mut self,
        network: &mut Network,
        world: &mut W,
        until: Timestamp,
        wake: &[BorrowedFd<'_>],
        mut observe: impl FnMut(Turn<'_, W>) -> Control,
    ) -> Result<Ended, EmulatorError> {
        be_punctual();
        // If it is not granted, late packets are counted as such.
        if self.config.precedence && self.precedence.is_none() {
            self.precedence = Some(Precedence::ask(self.config.others));
        }
        let mut woken = false;
        loop {
            let horizon = self.turn(network, world, until)?;
            let control = observe(Turn { network, world, pool: &self.gate.pool, woken });
            self.gate.recycle();
            if control == Control::Stop {
                return Ok(Ended::Stopped);
            }
            if horizon >= until {
                return Ok(Ended::Reached);
            }
            let mut next = network.next_event().unwrap_or(until).min(until);
            if let Some(due) = self.ports.iter().filter_map(|port| port.due()).min() {
                next = next.min(self.clock.at(due));
            }
            let host = self.clock.monotonic(horizon);
            if host.saturating_sub(self.looked) >= LOOK.as_nanos() {
                // No time to wait: only check all descriptors.
                if let Some(precedence) = &mut self.precedence {
                    precedence.look(Timestamp::from_nanos(host), self.ledger.intakes);
                }
                self.looked = host;
                next = Timestamp::ZERO;
            }
            woken = self.wait(next, wake)?;
        }
    }

    /// Takes in arrivals, lets the network do what is due, sends departures. Returns how far it went.
    fn turn<W: World>(
        &mut self,
        network: &mut Network,
        world: &mut W,
        until: Timestamp,
    ) -> Result<Timestamp, EmulatorError> {
        let now = self.clock.now();
        self.clock.refresh(now);
        for (id, port) in self.ports.iter_mut().enumerate() {
            let id = PortId(id as u32);
            port.receive(id, &self.clock, now, &mut self.gate.pool, &mut self.arrivals)?;
        }
        // Packets that arrived after that reading of the clock have a later timestamp, and must not be taken for earlier than they are. A timestamp
        // later than the current time is wrong: the system's clock was set.
        let latest = self.arrivals.iter().map(|arrival| arrival.at).max();
        let horizon = match latest {
            Some(latest) if latest > now => latest.min(self.clock.now()),
            // Nothing has arrived: handle what is due by the time that it has been handed over.
            None => now.max(self.target),
            _ => now,
        };
        let horizon = horizon.min(until);
        // Simulated packets do not leave by a port: their lateness only shows as the network being behind.
        if let Some(due) = network.next_event() {
            self.check_lag(due, horizon)?;
        }
        if !self.arrivals.is_empty() {
            self.active = self.clock.monotonic(now);
            self.ledger.intakes += 1;
            // A stable sort: arrivals with equal timestamps stay in the order of their port.
            self.arrivals.sort_by_key(|arrival| arrival.at);
        }
        let mut sent = self.active;
        self.flood = self.arrivals.len() >= BATCH;
        for at in 0..self.arrivals.len() {
            // Many ports with many arrivals each are milliseconds of work. What leaves meanwhile is already due.
            if at % PIECE == PIECE - 1 && host_now().saturating_sub(sent) >= PATIENCE.min(self.late() / PARTS)
            {
                self.send()?;
                sent = host_now();
            }
            let arrival = self.arrivals[at];
            let present = network.now();
            let instant = arrival.at.min(horizon);
            if instant > present {
                network.run_until(instant, &mut Adapter { world, gate: &mut self.gate }, u64::MAX);
            } else if instant < present {
                self.ledger.corrected += 1;
            }
            let mut port = network.port(instant.max(present));
            world.handle_arrival(&arrival, &mut self.gate, &mut port);
        }
        self.arrivals.clear();
        network.run_until(horizon, &mut Adapter { world, gate: &mut self.gate }, u64::MAX);
        self.send()?;
        for handle in network.take_released() {
            world.handle_loss(handle);
            self.gate.release(handle);
        }
        Ok(horizon)
    }

    /// How late a packet is that counts as late, in nanoseconds of the machine's time.
    fn late(&self) -> u64 {
        self.clock.tdf().to_host(self.config.late.as_nanos())
    }

    /// Returns an error if what was `due` is handled too late at `now`.
    fn check_lag(&self, due: Timestamp, now: Timestamp) -> Result<(), EmulatorError> {
        let by = now.saturating_since(due);
        match self.config.lag {
            LagPolicy::Hard(limit) if by > limit => Err(EmulatorError::Lag { at: due, by, limit }),
            _ => Ok(()),
        }
    }

    /// Hands departures from the network to the ports.
    fn send(&mut self) -> Result<(), EmulatorError> {
        while let Some((id, outgoing)) = self.gate.outgoing.take() {
            let port = id.0 as usize;
            let host = host_now();
            let now = self.clock.at(host);
            self.handles.clear();
            for &(due, handle) in &outgoing {
                self.check_lag(due, now)?;
                self.ledger.note(now.saturating_since(due), 1);
                self.handles.push(handle);
            }
            // Checks whether the first one after a sleep left when it was due.
            let woke = self.slept.take();
            let held = match (woke, outgoing.first()) {
                (Some(_), Some(&(due, _))) => self.hold(due),
                _ => (host, host),
            };
            let sent = match (woke, self.handles.as_slice()) {
                (Some(woke), &[handle]) => {
                    let left = self.ports[port].transmit_stamped(&mut self.gate.pool, handle);
                    left.map(|left| {
                        let left = left.map(|left| self.clock.stamp(left, self.clock.now()));
                        if let Some(left) = left.filter(|&left| left >= now) {
                            self.handover.note(woke, held, self.clock.monotonic(left));
                        }
                    })
                }
                _ => self.ports[port].transmit(&mut self.gate.pool, &self.handles),
            };
            self.gate.outgoing.give_back(id, outgoing);
            for &handle in &self.handles {
                self.gate.pool.release(handle);
            }
            sent?;
        }
        Ok(())
    }

    /// Waits until a packet that is due at `due` may be handed over: a wait ends early by what that took lately, and this time it may be
    /// quicker. Returns from when to when it has waited, by the machine's clock.
    fn hold(&self, due: Timestamp) -> (u64, u64) {
        let due = self.clock.monotonic(due);
        let ready = host_now();
        let mut now = ready;
        while now.saturating_add(self.handover.call()) < due {
            std::hint::spin_loop();
            now = host_now();
        }
        (ready, now)
    }

    /// Whether a ring has something to read.
    fn pending(&self) -> bool {
        self.ports.iter().any(|port| port.pending() == Some(true))
    }

    /// Sleeps for a while, whatever comes, if a turn is to have more to do. Returns whether a signal has ended it: its handler may want to stop.
    fn nap(&self) -> bool {
        if !self.precedence.as_ref().is_some_and(|own| own.naps(Timestamp::from_nanos(host_now()))) {
            return false;
        }
        let late = match self.config.lag {
            LagPolicy::Hard(limit) => limit.min(self.config.late),
            LagPolicy::BestEffort => self.config.late,
        };
        let Some(nanos) = nap_length(self.clock.tdf().to_host(late.as_nanos())) else { return false };
        let slept = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: nanos as i64 }));
        slept == Err(rustix::io::Errno::INTR)
    }

    /// Waits until `deadline` (zero only checks `wake`), or until something comes in or one of `wake` is readable.
    /// Returns whether one of `wake` is.
    fn wait(&mut self, deadline: Timestamp, wake: &[BorrowedFd<'_>]) -> Result<bool, EmulatorError> {
        let Waiting { spin: most, linger } = self.config.waiting;
        // Only rings can be checked without a system call.
        let rings = self.ports.iter().all(|port| port.pending().is_some());
        (self.slept, self.target) = (None, Timestamp::ZERO);
        let mut slept = false;
        let look = deadline == Timestamp::ZERO;
        let due = self.clock.monotonic(deadline);
        // Lateness in the machine's time is less in the run's time.
        let dilated =
            |span: TimeDelta| TimeDelta::from_nanos(self.clock.tdf().to_run(span.as_nanos())).min(span);
        let (most, linger) = (dilated(most), dilated(linger));
        let mut spun = None;
        // An emulator that is behind, or has not read all that has arrived, does not sleep.
        if !look && !self.flood && host_now() < due && self.nap() {
            return Ok(true);
        }
        loop {
            let now = host_now();
            if let (Some(precedence), Some(before)) = (&mut self.precedence, spun.take()) {
                precedence.saw(Timestamp::from_nanos(before), Timestamp::from_nanos(now));
            }
            let lead = if slept { self.handover.lead().as_nanos() } else { 0 };
            if !look && now + lead >= due {
                self.target = deadline;
                self.slept = slept.then_some(now);
                return Ok(false);
            }
            if !look && self.pending() {
                return Ok(false);
            }
            let left = TimeDelta::from_nanos(due.saturating_sub(now));
            let calm = self
                .precedence
                .as_ref()
                .is_some_and(|precedence| precedence.is_calm(Timestamp::from_nanos(now)));
            let spin = if calm { TimeDelta::ZERO } else { self.oversleep.margin(most) };
            if !look
                && rings
                && !calm
                && (left <= spin || now.saturating_sub(self.active) < linger.as_nanos())
            {
                for _ in 0..20 {
                    std::hint::spin_loop();
                }
                spun = Some(now);
                continue;
            }
            let mut nanos = left.saturating_sub(spin).as_nanos();
            if self.tells_late && now.saturating_sub(self.active) < self.clock.tdf().to_host(ALERT.as_nanos())
            {
                nanos = nanos.min((self.late() / LOOKS).max(LEAST_NAP));
            }
            let sleep =
                Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
            let ports = self.ports.iter().filter_map(|port| port.fd());
            let mut fds: Vec<PollFd<'_>> = ports
                .chain(wake.iter().copied())
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            match poll(&mut fds, Some(&sleep)) {
                // Where looking takes a system call, spinning is a row of looks. They are not sleeps, and say nothing of how late those end.
                Ok(0) if !look && nanos == 0 => {}
                Ok(0) if !look => {
                    slept = true;
                    self.oversleep.note(TimeDelta::from_nanos(host_now().saturating_sub(now + nanos)));
                }
                Ok(_) => {
                    let shown: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
                    let (ports, wake) = shown.split_at(shown.len() - wake.len());
                    let own = self.ports.iter_mut().filter(|port| port.fd().is_some());
                    for (port, shown) in own.zip(ports) {
                        if shown.contains(PollFlags::IN) {
                            port.on_readable();
                        }
                        if shown.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                            port.check()?;
                        }
                    }
                    return Ok(wake.iter().any(|shown| !shown.is_empty()));
                }
                // A signal: its handler may want to stop.
                Err(rustix::io::Errno::INTR) => return Ok(true),
                Err(errno) => return Err(EmulatorError::Wait(errno.into())),
            }
        }
    }

    /// The audit of the run so far.
    pub fn audit(&mut self) -> Audit {
        let duration = host_now().saturating_sub(self.clock.started());
        let cpu = thread_time().saturating_sub(self.cpu_start);
        let ports: Vec<PortAudit> = self
            .ports
            .iter_mut()
            .map(|port| PortAudit { name: port.name().to_owned(), counters: port.counters() })
            .collect();
        Audit {
            summary: AuditSummary {
                duration_s: duration as f64 / 1e9,
                cpu_share: cpu as f64 / duration.max(1) as f64,
                lateness: self.ledger.lateness(),
                corrected_packets: self.ledger.corrected,
                lost_outside: ports.iter().map(|port| PortCounters::lost(&port.counters)).sum(),
                pool_overruns: ports.iter().map(|port| port.counters.pool_overruns).sum(),
                offloads: self.offloads.clone(),
            },
            ports,
        }
    }
}

#[cfg(test)]
mod tests;
