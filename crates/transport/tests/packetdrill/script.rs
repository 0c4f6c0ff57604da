//! The notation: from the text of a script to its steps.
//!
//! It is a part of packetdrill's (Cardwell et al., "packetdrill: Scriptable Network Stack Testing, from Sockets to Packets", USENIX ATC 2013).
//! A line is an event with its time. `+.1` is 0.1 s after the event before, `.1` is 0.1 s after the start, and a line without a time is at the time
//! of the event before. `+.2~+.3` is any time between. An event is one of these:
//!
//! ```text
//! < S 0:0(0) win 1000 <mss 1460,sackOK,nop,wscale 7>    a segment that arrives: flags, sequence numbers, payload, `ack`, `win`, options
//! < [ce] . 1:1001(1000) ack 1 win 100                   the same with a congestion mark
//! < icmp unreachable frag_needed mtu 1200               a router says how large packets may be
//! > . 1:1001(1000) ack 1                                a segment that must leave; `<...>` stands for any options
//! write(4, ..., 1000) = 1000                            a call: connect, listen, accept, write, read, shutdown, close; the last argument counts
//! assert cwnd == 10, ssthresh >= 7, state == open       what must be so; windows and counts are in segments
//! ```
//!
//! Lines `--NAME=VALUE` before all others set an option of TCP by its name, the `preset`, or the congestion control (`cc`). `//` begins a comment.

use std::fmt;
use std::str::FromStr;

use warpline_core::{Flags, Segment, TimeDelta};

/// A script.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub options: Vec<(usize, String, String)>,
    pub steps: Vec<Step>,
}

/// An event and its time.
#[derive(Debug)]
pub(crate) struct Step {
    pub line: usize,
    pub text: String,
    pub time: Time,
    pub event: Event,
}

/// When something happens: between two times, counted from the event before or from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub relative: bool,
    pub earliest: TimeDelta,
    pub latest: TimeDelta,
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrives { packet: Packet, ce: bool },
    PathMtu(u32),
    Leaves(Packet),
    Call { name: String, argument: String, result: Option<u64> },
    Assert(Vec<Claim>),
}

/// A segment as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub flags: Flags,
    pub seq: u64,
    pub len: u32,
    pub ack: Option<u64>,
    /// As on the wire, before scaling.
    pub win: Option<u32>,
    /// None: any.
    pub options: Option<Options>,
}

/// TCP options as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack_ok: bool,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u64, u64)>,
}

/// A comparison in an `assert`.
#[derive(Debug)]
pub(crate) struct Claim {
    pub what: String,
    pub operator: String,
    pub value: String,
}

/// What is wrong with a line.
#[derive(Debug)]
pub(crate) struct Fault {
    pub line: usize,
    pub message: String,
}

const LETTERS: [(char, Flags); 8] = [
    ('S', Flags::SYN),
    ('F', Flags::FIN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('.', Flags::ACK),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
    ('A', Flags::AE),
];

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let mut script = Script::default();
        for (index, whole) in text.lines().enumerate() {
            let line = index + 1;
            let text = whole.split("//").next().unwrap_or_default().trim();
            let fault = |message: String| Fault { line, message };
            if text.is_empty() {
                continue;
            }
            if let Some(option) = text.strip_prefix("--") {
                let (name, value) = option.split_once('=').ok_or_else(|| fault("no `=`".to_owned()))?;
                script.options.push((line, name.to_owned(), value.to_owned()));
                continue;
            }
            let (time, rest) = time(text).map_err(fault)?;
            let event = event(rest).map_err(fault)?;
            script.steps.push(Step { line, text: text.to_owned(), time, event });
        }
        Ok(script)
    }

    /// Whether a call of this name is in it.
    pub(crate) fn calls(&self, called: &str) -> bool {
        self.steps.iter().any(|step| matches!(&step.event, Event::Call { name, .. } if name == called))
    }
}

fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no {what}"))
}

/// The time at the beginning of a line, and the rest of the line.
fn time(text: &str) -> Result<(Time, &str), String> {
    let now = Time { relative: true, earliest: TimeDelta::ZERO, latest: TimeDelta::ZERO };
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !first.starts_with(|c: char| c == '+' || c.is_ascii_digit() || c == '.' && first.len() > 1) {
        return Ok((now, text));
    }
    let relative = first.starts_with('+');
    let span = |text: &str| {
        let seconds: f64 = number(text.trim_start_matches('+'), "time in seconds")?;
        Ok::<_, String>(TimeDelta::from_nanos((seconds * 1e9).round() as u64))
    };
    let (from, to) = first.split_once('~').unwrap_or((first, first));
    Ok((Time { relative, earliest: span(from)?, latest: span(to)? }, rest.trim()))
}

fn event(text: &str) -> Result<Event, String> {
    if let Some(mtu) = text.strip_prefix("< icmp unreachable frag_needed mtu ") {
        return Ok(Event::PathMtu(number(mtu.trim(), "size")?));
    }
    if let Some(rest) = text.strip_prefix('<') {
        let rest = rest.trim();
        let unmarked = rest.strip_prefix("[ce]");
        let packet = packet(unmarked.unwrap_or(rest).trim())?;
        return Ok(Event::Arrives { packet, ce: unmarked.is_some() });
    }
    if let Some(rest) = text.strip_prefix('>') {
        return Ok(Event::Leaves(packet(rest.trim())?));
    }
    if let Some(claims) = text.strip_prefix("assert ") {
        return Ok(Event::Assert(claims.split(',').map(claim).collect::<Result<_, _>>()?));
    }
    let (name, rest) = text.split_once('(').ok_or("neither a packet, a call nor an assertion")?;
    let (arguments, result) = rest.rsplit_once(')').ok_or("no `)`")?;
    let result = match result.trim().strip_prefix('=') {
        Some(result) => Some(number(result.trim(), "result")?),
        None => None,
    };
    let argument = arguments.rsplit(',').next().unwrap_or_default().trim().to_owned();
    Ok(Event::Call { name: name.trim().to_owned(), argument, result })
}

fn claim(text: &str) -> Result<Claim, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [what, operator, value] => {
            Ok(Claim { what: what.to_owned(), operator: operator.to_owned(), value: value.to_owned() })
        }
        _ => Err(format!("`{}` is no comparison of two values", text.trim())),
    }
}

fn packet(text: &str) -> Result<Packet, String> {
    let (fields, options) = match text.split_once('<') {
        Some((fields, options)) => (fields, options.strip_suffix('>').ok_or("no `>` after the options")?),
        None => (text, ""),
    };
    let mut words = fields.split_whitespace();
    let letters = words.next().ok_or("no flags")?;
    let mut flags = Flags::default();
    for letter in letters.chars() {
        let flag = LETTERS.iter().find(|(known, _)| *known == letter);
        // As in packetdrill, a dash stands for no flags.
        match flag {
            Some((_, flag)) => flags = flags.with(*flag),
            None if letters == "-" => {}
            None => return Err(format!("`{letter}` is no flag")),
        }
    }
    let place = words.next().ok_or("no sequence numbers")?;
    let (seq, rest) = place.split_once(':').ok_or("no `:` in the sequence numbers")?;
    let (end, len) = rest.split_once('(').ok_or("no `(` after the sequence numbers")?;
    let seq: u64 = number(seq, "sequence number")?;
    let len: u32 = number(len.trim_end_matches(')'), "length")?;
    if seq + u64::from(len) != number::<u64>(end, "sequence number")? {
        return Err(format!("`{place}` does not add up"));
    }
    let (mut ack, mut win) = (None, None);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("nothing after `{word}`"))?;
        match word {
            "ack" => ack = Some(number(value, "acknowledgement")?),
            "win" => win = Some(number(value, "window")?),
            _ => return Err(format!("`{word}` is neither `ack` nor `win`")),
        }
    }
    let options = if options == "..." { None } else { Some(options_of(options)?) };
    Ok(Packet { flags, seq, len, ack, win, options })
}

fn options_of(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words[..] {
            ["nop"] => {}
            ["sackOK"] => options.sack_ok = true,
            ["mss", size] => options.mss = Some(number(size, "size")?),
            ["wscale", shift] => options.wscale = Some(number(shift, "shift")?),
            ["TS", "val", value, "ecr", echo] => {
                options.timestamps = Some((number(value, "timestamp")?, number(echo, "timestamp")?));
            }
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (start, end) = block.split_once(':').ok_or("no `:` in a SACK block")?;
                    options.sack.push((number(start, "sequence number")?, number(end, "sequence number")?));
                }
            }
            _ => return Err(format!("`{option}` is no option")),
        }
    }
    Ok(options)
}

impl Packet {
    /// What a segment looks like on the wire, with windows of `scale`.
    pub(crate) fn of(segment: &Segment, scale: u8) -> Self {
        let syn = segment.flags.contains(Flags::SYN);
        let options = Options {
            mss: syn.then_some(segment.syn.mss),
            wscale: segment.syn.window_scale,
            sack_ok: segment.syn.sack_permitted,
            timestamps: segment.timestamps,
            sack: segment.sack.iter(segment.ack).collect(),
        };
        let scale = if syn { 0 } else { scale };
        Packet {
            flags: segment.flags,
            seq: segment.seq,
            len: segment.len,
            ack: segment.flags.contains(Flags::ACK).then_some(segment.ack),
            win: Some(segment.window >> scale),
            options: Some(options),
        }
    }

    /// Whether `came` is what is expected here. PSH counts where it is written only: Linux sets it at the end of each write, our TCP at the end of
    /// all data.
    pub(crate) fn admits(&self, came: &Packet) -> bool {
        let push = Flags(Flags::PSH.0 & !self.flags.0);
        self.flags == Flags(came.flags.0 & !push.0)
            && (self.seq, self.len, self.ack) == (came.seq, came.len, came.ack)
            && self.win.is_none_or(|win| came.win == Some(win))
            && self.options.as_ref().is_none_or(|options| came.options.as_ref() == Some(options))
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, flag) in LETTERS {
            if self.flags.contains(flag) {
                write!(f, "{letter}")?;
            }
        }
        write!(f, " {}:{}({})", self.seq, self.seq + u64::from(self.len), self.len)?;
        for (name, value) in [("ack", self.ack), ("win", self.win.map(u64::from))] {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        let Some(options) = &self.options else { return write!(f, " <...>") };
        let mut words = Vec::new();
        words.extend(options.mss.map(|mss| format!("mss {mss}")));
        words.extend(options.sack_ok.then(|| "sackOK".to_owned()));
        words.extend(options.timestamps.map(|(value, echo)| format!("TS val {value} ecr {echo}")));
        words.extend(options.wscale.map(|shift| format!("wscale {shift}")));
        if !options.sack.is_empty() {
            let blocks: Vec<_> = options.sack.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            words.push(format!("sack {}", blocks.join(" ")));
        }
        if words.is_empty() { Ok(()) } else { write!(f, " <{}>", words.join(",")) }
    }
}
