//! Runs a script against one connection.

use std::collections::VecDeque;
use std::fmt;

use warpline_core::parameter::{Parameters, Words};
use warpline_core::{Ecn, Flags, SackBlocks, Segment, SynOptions, TimeDelta, Timestamp};
use warpline_transport::cc::{Algorithm, Controller, Phase};
use warpline_transport::tcp::{Connection, TcpConfig, TcpPreset};

use super::script::{Claim, Event, Packet, Script, Step};

/// Times are written in decimal: so much may be lost in that.
const TOLERANCE: TimeDelta = TimeDelta::from_micros(1);

/// Where a script fails: what it expects there, and what came.
#[derive(Debug)]
pub(crate) struct Failure {
    pub script: String,
    pub line: usize,
    pub expected: String,
    pub came: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { script, line, expected, came } = self;
        write!(f, "{script}, line {line}:\n  expected: {expected}\n  came:     {came}")
    }
}

struct Machine {
    tcp: Connection<Controller>,
    now: Timestamp,
    /// What has left, and the script has not seen yet.
    left: VecDeque<(Timestamp, Segment)>,
    /// Window scales that the other side and we have offered.
    scales: [Option<u8>; 2],
}

/// Runs the script called `name`.
pub(crate) fn run(name: &str, text: &str) -> Result<(), Failure> {
    let fails = |line, expected: &str, came: String| {
        Err(Failure { script: name.to_owned(), line, expected: expected.to_owned(), came })
    };
    let script = match Script::parse(text) {
        Ok(script) => script,
        Err(fault) => return fails(fault.line, "packetdrill's notation", fault.message),
    };
    let mut machine = match Machine::new(&script) {
        Ok(machine) => machine,
        Err((line, message)) => return fails(line, "an option and its value", message),
    };
    for step in &script.steps {
        if let Err(came) = machine.step(step) {
            return fails(step.line, &step.text, came);
        }
    }
    let end = text.lines().count();
    match machine.left.pop_front() {
        Some((at, segment)) => fails(end, "no more packets", machine.describe(at, &segment)),
        None => Ok(()),
    }
}

impl Machine {
    fn new(script: &Script) -> Result<Self, (usize, String)> {
        let (mut config, mut algorithm) = (TcpConfig::default(), Algorithm::default());
        for (line, name, value) in &script.options {
            let told = match name.as_str() {
                "preset" => match TcpPreset::ALL.iter().find(|preset| preset.word() == value) {
                    Some(preset) => Ok(config = preset.config()),
                    None => Err(format!("there is no preset `{value}`")),
                },
                "cc" => value.parse().map(|parsed| algorithm = parsed).map_err(|error| format!("{error}")),
                _ => set(&mut config, name, value),
            };
            told.map_err(|message| (*line, message))?;
        }
        config.validate().map_err(|fault| (1, fault.to_string()))?;
        let cc = algorithm.build(&config.cc_config());
        let client = script.calls("connect");
        let mut tcp = if client { Connection::client(config, cc) } else { Connection::server(config, cc) };
        // Without a call that reads, data is taken as it comes.
        tcp.set_auto_read(!script.calls("read"));
        Ok(Machine { tcp, now: Timestamp::ZERO, left: VecDeque::new(), scales: [None; 2] })
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let base = if step.time.relative { self.now } else { Timestamp::ZERO };
        let (earliest, latest) = (base + step.time.earliest, base + step.time.latest);
        if let Event::Leaves(packet) = &step.event {
            return self.expect(packet, earliest, latest);
        }
        self.advance(earliest);
        match &step.event {
            Event::Arrives { packet, ce } => self.arrive(packet, *ce),
            Event::PathMtu(mtu) => {
                self.tcp.reduce_mss(self.now, mtu.saturating_sub(40));
            }
            Event::Call { name, argument, result } => self.call(name, argument, *result)?,
            Event::Assert(claims) => claims.iter().try_for_each(|claim| self.check(claim))?,
            Event::Leaves(_) => {}
        }
        self.pump();
        Ok(())
    }

    /// What happens until `to`.
    fn advance(&mut self, to: Timestamp) {
        while self.tcp.poll_timeout() <= to {
            self.expire();
        }
        self.now = self.now.max(to);
    }

    fn expire(&mut self) {
        self.now = self.now.max(self.tcp.poll_timeout());
        self.tcp.handle_timeout(self.now);
        self.pump();
    }

    fn pump(&mut self) {
        while let Some((segment, _)) = self.tcp.poll_transmit(self.now) {
            if segment.flags.contains(Flags::SYN) {
                self.scales[1] = segment.syn.window_scale;
            }
            self.left.push_back((self.now, segment));
        }
    }

    /// The scale of windows in one direction: 0 from the other side, 1 from ours.
    fn scale(&self, direction: usize) -> u8 {
        self.scales[0].and(self.scales[1]).and(self.scales[direction]).unwrap_or(0)
    }

    fn describe(&self, at: Timestamp, segment: &Segment) -> String {
        format!("{:.6} > {}", at.as_secs_f64(), Packet::of(segment, self.scale(1)))
    }

    fn expect(&mut self, packet: &Packet, earliest: Timestamp, latest: Timestamp) -> Result<(), String> {
        while self.left.is_empty() && self.tcp.poll_timeout() <= latest + TOLERANCE {
            self.expire();
        }
        let Some((at, segment)) = self.left.pop_front() else {
            let next = self.tcp.poll_timeout();
            let timer = if next.is_set() { format!("{:.6}", next.as_secs_f64()) } else { "none".to_owned() };
            return Err(format!("nothing by {:.6}; next timer: {timer}", latest.as_secs_f64()));
        };
        let in_time = at + TOLERANCE >= earliest && at <= latest + TOLERANCE;
        if in_time && packet.admits(&Packet::of(&segment, self.scale(1))) {
            return Ok(());
        }
        Err(self.describe(at, &segment))
    }

    fn arrive(&mut self, packet: &Packet, ce: bool) {
        let options = packet.options.clone().unwrap_or_default();
        let syn = packet.flags.contains(Flags::SYN);
        if syn {
            self.scales[0] = options.wscale;
        }
        let scale = if syn { 0 } else { self.scale(0) };
        let ack = packet.ack.unwrap_or(0);
        let mut sack = SackBlocks::NONE;
        for &(start, end) in &options.sack {
            sack.push(ack, start, end);
        }
        let syn = SynOptions {
            mss: options.mss.unwrap_or(0),
            window_scale: options.wscale,
            sack_permitted: options.sack_ok,
        };
        let segment = Segment {
            seq: packet.seq,
            ack,
            len: packet.len,
            window: packet.win.unwrap_or(0) << scale,
            timestamps: options.timestamps,
            sack,
            syn,
            flags: packet.flags,
        };
        let ecn = if ce { Ecn::Ce } else { Ecn::NotEct };
        self.tcp.handle_segment(self.now, &segment, ecn);
    }

    fn call(&mut self, name: &str, argument: &str, result: Option<u64>) -> Result<(), String> {
        let bytes = || argument.parse::<u64>().map_err(|_| format!("`{argument}` is no number of bytes"));
        let came = match name {
            "connect" => {
                self.tcp.open(self.now);
                return Ok(());
            }
            "listen" => return Ok(()),
            "accept" if self.tcp.is_established() => return Ok(()),
            "accept" => return Err(format!("the connection is in {:?}", self.tcp.state())),
            "write" => self.tcp.write(bytes()?),
            "read" => self.tcp.read(bytes()?),
            "shutdown" if argument != "SHUT_WR" => return Err("only SHUT_WR is known".to_owned()),
            "shutdown" | "close" => {
                self.tcp.close();
                0
            }
            _ => return Err(format!("`{name}` is no call that is known here")),
        };
        match result {
            Some(result) if result != came => Err(format!("{came}")),
            _ => Ok(()),
        }
    }

    fn check(&self, claim: &Claim) -> Result<(), String> {
        let Claim { what, operator, value } = claim;
        if what == "state" {
            let phase = self.tcp.phase();
            let known = [Phase::Open, Phase::Disorder, Phase::Cwr, Phase::Recovery, Phase::Loss];
            let name = |phase: Phase| format!("{phase:?}").to_lowercase();
            if !known.into_iter().any(|phase| name(phase) == *value) || operator != "==" {
                return Err(format!("`{operator} {value}` cannot be asked of the state"));
            }
            return if name(phase) == *value { Ok(()) } else { Err(format!("state is {}", name(phase))) };
        }
        let segments = |bytes: u64| bytes as f64 / self.tcp.segment_payload() as f64;
        let came = match what.as_str() {
            "cwnd" => segments(self.tcp.cwnd()),
            "window" => segments(self.tcp.window()),
            "ssthresh" if self.tcp.ssthresh() == u64::MAX => f64::INFINITY,
            "ssthresh" => segments(self.tcp.ssthresh()),
            "in_flight" => segments(self.tcp.in_flight()),
            "retransmitted" => self.tcp.stats().retransmitted_segments as f64,
            "undos" => self.tcp.stats().undos as f64,
            _ => return Err(format!("`{what}` cannot be asked for")),
        };
        let value: f64 = value.parse().map_err(|_| format!("`{value}` is no number"))?;
        let holds = match operator.as_str() {
            "==" => (came - value).abs() < 1e-9 || came == value,
            "!=" => came != value,
            "<" => came < value,
            "<=" => came <= value,
            ">" => came > value,
            ">=" => came >= value,
            _ => return Err(format!("`{operator}` is no comparison")),
        };
        if holds { Ok(()) } else { Err(format!("{what} is {came}")) }
    }
}

/// Sets one option of TCP.
fn set(config: &mut TcpConfig, name: &str, value: &str) -> Result<(), String> {
    let parameters: &mut dyn Parameters = config;
    let mut fields = parameters.fields();
    let field = fields.iter_mut().find(|field| field.name == name);
    let field = field.ok_or_else(|| format!("TCP has no option `{name}`"))?;
    let given = field.value.kind().read(value);
    let taken = given.is_some_and(|given| field.value.take(&given));
    if taken { Ok(()) } else { Err(format!("`{value}` is no value of `{name}`")) }
}
