//! A test bed: a simulated host and a namespace with Linux's own stack, a TUN device between them, and an emulated link each way.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command, Stdio};

use warpline_core::{Ecn, EndpointId, LinkId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp};
use warpline_live::datagram;
use warpline_live::emulator::{Emulator, EmulatorConfig, Gate, World};
use warpline_live::netlink::Netlink;
use warpline_live::netns::NetNs;
use warpline_live::port::tun::TunPort;
use warpline_live::port::{Arrival, PortId};
use warpline_live::privilege;
use warpline_live::wire::payload::Pattern;
use warpline_live::wire::{HostConfig, HostEvent, ModelHost, PayloadSource, SessionReport};
use warpline_net::link::LinkStats;
use warpline_net::loss::{BernoulliParams, LossKind};
use warpline_net::qdisc::QdiscConfig;
use warpline_net::{Control, LinkConfig, Network, Port, RateConfig, RouteId};

pub(crate) const MODEL_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const LINUX_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const MODEL_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(crate) const LINUX_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Seconds after which a test gives up.
const PATIENCE: u64 = 600;

/// The host's endpoint, and that of the port.
const HOST: EndpointId = EndpointId(0);
const TIMER: TimerId = TimerId(0);
const LINUX: EndpointId = EndpointId(1);

/// The links: the same loss each way, 5 ms each way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub(crate) loss: f64,
    pub(crate) rate: Option<Rate>,
    pub(crate) qdisc: QdiscConfig,
}

#[derive(Debug)]
pub(crate) struct ModelWorld {
    pub(crate) host: ModelHost,
    up: RouteId,
    down: RouteId,
    out: Vec<u8>,
    pub(crate) events: Vec<HostEvent>,
}

impl ModelWorld {
    fn pump(&mut self, now: Timestamp, gate: &mut Gate, port: &mut Port<'_>) {
        while self.host.poll_transmit(now, &mut self.out) {
            let header = datagram::read(&self.out).unwrap();
            let Some(handle) = gate.pool_mut().insert(&self.out, header) else { continue };
            let packet = gate.packet(handle, LINUX);
            port.send(self.down, packet);
        }
        let deadline = self.host.poll_timeout();
        if deadline.is_set() {
            port.set_timer(TIMER, deadline);
        }
        while let Some(event) = self.host.poll_event() {
            self.events.push(event);
        }
    }
}

impl World for ModelWorld {
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let packet = gate.packet(arrival.handle, HOST);
        port.send_at(arrival.at, self.up, packet);
    }
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, port: &mut Port<'_>) {
        if packet.to == LINUX {
            gate.transmit(now, packet, PortId(0));
            return;
        }
        let warpline_core::Body::Frame(frame) = packet.body else { return };
        if packet.ecn == Ecn::Ce && gate.pool().header(frame.handle).ecn != Ecn::Ce {
            gate.pool_mut().mark_congestion(frame.handle);
        }
        self.host.handle_datagram(now, gate.pool().datagram(frame.handle));
        gate.release(frame.handle);
        self.pump(now, gate, port);
    }
    fn handle_timeout(&mut self, now: Timestamp, _: TimerId, gate: &mut Gate, port: &mut Port<'_>) {
        self.host.handle_timeout(now);
        self.pump(now, gate, port);
    }
}

/// A test's bed.
pub(crate) struct Bed {
    namespace: NetNs,
    emulator: Emulator,
    network: Network,
    pub(crate) world: ModelWorld,
    pub(crate) directory: tempdir::Directory,
}

/// A program's output and how it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ok: bool,
    pub(crate) out: String,
}

impl Bed {
    /// A bed; or why it cannot be made here.
    pub(crate) fn make(
        path: &Path,
        change: impl FnOnce(&mut HostConfig),
    ) -> Result<Bed, (&'static str, String)> {
        if !privilege::is_privileged() {
            return Err(("root", "this test makes interfaces".to_owned()));
        }
        for program in ["python3", "curl", "ping"] {
            let found =
                Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if found.is_err() {
                return Err(("program", format!("{program} is not installed")));
            }
        }
        let namespace = NetNs::create().map_err(|error| ("root", error.to_string()))?;
        let port = namespace
            .within(|| {
                let port = TunPort::open("model0", 1500).map_err(|error| error.to_string())?;
                let mut netlink = Netlink::open().unwrap();
                netlink.set_up("lo", true).unwrap();
                netlink.set_up("model0", false).unwrap();
                netlink.add_address("model0", LINUX_V4.into(), 24).unwrap();
                netlink.add_address("model0", LINUX_V6.into(), 64).unwrap();
                Ok::<_, String>(port)
            })
            .map_err(|error| ("root", error.to_string()))?
            .map_err(|error| ("tun", error))?;
        let mut config = HostConfig::new(vec![IpAddr::V4(MODEL_V4), IpAddr::V6(MODEL_V6)]);
        change(&mut config);
        let streams = Streams::new(1);
        let host = ModelHost::new(config, streams.stream("host")).unwrap();
        let mut network = Network::new();
        let mut link = |name: &str, from: u32| {
            let link = LinkConfig {
                rate: path.rate.map_or(RateConfig::Unlimited, RateConfig::Constant),
                delay: TimeDelta::from_millis(5),
                qdisc: path.qdisc.clone(),
                loss: LossKind::Bernoulli(BernoulliParams { probability: path.loss, longest: None }).into(),
                ..LinkConfig::new(name, NodeId(from), NodeId(1 - from))
            };
            let id = network.add_link(link, &streams);
            network.add_route(&[id]).unwrap()
        };
        let (up, down) = (link("up", 1), link("down", 0));
        let mut emulator = Emulator::new(EmulatorConfig::default());
        emulator.add_port(Box::new(port));
        let world = ModelWorld { host, up, down, out: Vec::new(), events: Vec::new() };
        Ok(Bed { namespace, emulator, network, world, directory: tempdir::Directory::make() })
    }

    /// The present.
    pub(crate) fn now(&self) -> Timestamp {
        self.emulator.clock().now()
    }

    /// Sets a kernel variable of the namespace.
    pub(crate) fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        self.namespace.within(|| std::fs::write(&path, value)).unwrap().unwrap();
    }

    /// Starts a program in the namespace, in the bed's directory.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.directory.path());
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        self.namespace.within(|| command.spawn()).unwrap().unwrap()
    }

    /// Carries packets until `done`, or patience runs out. Returns whether it is done.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&mut ModelWorld) -> bool) -> bool {
        let end = self.now() + TimeDelta::from_secs(PATIENCE);
        while self.now() < end {
            // Sends what the application has done since.
            let present = self.network.now();
            self.network.port(present).set_timer(TIMER, present);
            let until = self.now() + TimeDelta::from_millis(20);
            self.emulator.run(&mut self.network, &mut self.world, until, &[], |_| Control::Continue).unwrap();
            if done(&mut self.world) {
                return true;
            }
        }
        false
    }

    /// Runs a program in the namespace to its end.
    pub(crate) fn run(&mut self, words: &[&str]) -> Finished {
        let mut child = self.start(words);
        self.finish(&mut child)
    }

    /// Runs a Python program with [`PYTHON`] before it and the addresses of the host as `V4` and `V6`.
    pub(crate) fn python(&mut self, program: &str) -> Finished {
        let program = python(program);
        self.run(&["python3", "-c", &program])
    }

    /// Carries packets until a program ends.
    pub(crate) fn finish(&mut self, child: &mut Child) -> Finished {
        let mut status = None;
        self.run_until(|_| {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        if status.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        Finished { ok: status.is_some_and(|status| status.success()), out }
    }

    /// Carries packets until this many connections have ended; returns what they have carried, in that order.
    pub(crate) fn reports(&mut self, count: usize) -> Vec<SessionReport> {
        let reports = |world: &ModelWorld| -> Vec<SessionReport> {
            let closed = |event: &HostEvent| match event {
                HostEvent::Closed { report, .. } => Some(*report),
                HostEvent::Opened { .. } => None,
            };
            world.events.iter().filter_map(closed).collect()
        };
        self.run_until(|world| reports(world).len() >= count);
        reports(&self.world)
    }

    /// Counters of the links, up and down.
    pub(crate) fn links(&mut self) -> [LinkStats; 2] {
        [0, 1].map(|link| self.network.link_stats(LinkId(link)))
    }

    /// Writes this many bytes of the pattern to a file in the bed's directory.
    pub(crate) fn write_pattern(&self, name: &str, len: usize) {
        let mut bytes = vec![0; len];
        Pattern.fill(0, &mut bytes);
        std::fs::write(self.directory.path().join(name), bytes).unwrap();
    }

    /// Length of a file in the bed's directory, and how many of its bytes differ from the pattern.
    pub(crate) fn check_pattern(&self, name: &str) -> (usize, u64) {
        let bytes = std::fs::read(self.directory.path().join(name)).unwrap();
        (bytes.len(), Pattern::differences(0, &bytes))
    }
}

/// What Python programs begin with. `info` is a number of the kernel's struct tcp_info (linux/tcp.h), by its place there.
const PYTHON: &str = "
import errno, select, socket, struct, sys, time
SND_MSS, SEGS_IN, NOTSENT, DATA_SEGS_IN, SND_WND = 16, 140, 144, 152, 228
def info(s, at): return struct.unpack_from('I', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), at)[0]
";

/// A whole Python program.
pub(crate) fn python(program: &str) -> String {
    format!("{PYTHON}V4, V6 = '{MODEL_V4}', '{MODEL_V6}'\n{program}")
}

/// A directory that is removed when it is dropped.
pub(crate) mod tempdir {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(crate) struct Directory(PathBuf);

    impl Directory {
        pub(crate) fn make() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("warpline-model-{}-{number}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Directory(path)
        }
        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
