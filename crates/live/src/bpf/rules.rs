//! A test: the rules of TCP Nice in the kernel (`native/bpf/nice_rules.h`) do what those of the simulator do (`warpline_transport::cc::nice`).
//!
//! The same acknowledgements, made up of random paths, go through both. The C code runs as an ordinary program, under sanitizers.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use warpline_core::random::{Stream, Streams};
use warpline_core::{TimeDelta, Timestamp, float};
use warpline_transport::cc::{AckSample, Algorithm, CcConfig, CongestionControl, NiceParams, Phase};

use super::parameters::WHOLE;
use super::{Block, SEGMENT};

/// A segment has as many bytes as the programs have units of it, so that both count windows in the same.
const MSS: u64 = SEGMENT as u64;

/// The threshold of slow start that a connection begins with.
const UNSET: u64 = u32::MAX as u64;

/// An acknowledgement, in what the C program reads: microseconds and bytes.
struct Ack {
    clock: u64,
    rtt: u64,
    acked: u64,
    delivered: u64,
    prior_delivered: u64,
    in_flight: u64,
    limited: bool,
}

impl Ack {
    /// The line that the C program reads, with the window and the threshold before it.
    fn line(&self, (window, threshold): (u64, u64)) -> String {
        let Ack { clock, rtt, acked, delivered, prior_delivered, in_flight, limited } = self;
        let (limited, threshold) = (u8::from(*limited), threshold.min(UNSET));
        format!(
            "{clock} {rtt} {acked} {delivered} {prior_delivered} {in_flight} {limited} {window} {threshold}\n"
        )
    }

    fn sample(&self) -> AckSample {
        let micros = |micros: u64| TimeDelta::from_micros(micros);
        AckSample {
            now: Timestamp::ZERO + micros(self.clock),
            acked: self.acked,
            mss: MSS,
            rtt: Some(micros(self.rtt)),
            srtt: micros(self.rtt),
            min_rtt: micros(self.rtt),
            one_way_delay: None,
            delivery_rate: None,
            app_limited: false,
            sent_at: Timestamp::NEVER,
            delivered: self.delivered,
            prior_delivered: self.prior_delivered,
            prior_in_flight: self.in_flight + self.acked,
            in_flight: self.in_flight,
            next_seq: self.delivered + self.in_flight,
            ack: self.delivered,
            ce: 0,
            cwnd_limited: self.limited,
            phase: Phase::Open,
        }
    }
}

/// A path on which others come and go, and the flow on it.
struct Line {
    random: Stream,
    /// Its delay without a queue, what a segment takes at its narrowest link, and how long others' packets take there now; in microseconds.
    base: u64,
    segment: u64,
    crowd: u64,
    clock: u64,
    delivered: u64,
}

impl Line {
    fn new(seed: u64) -> Self {
        let mut random = Streams::new(seed).stream("path");
        let base = random.range(1e3, 200e3) as u64;
        // From 100 Mbit/s to a modem's 56 kbit/s.
        let segment = (120.0 * float::exp(random.range(0.0, 7.5))) as u64;
        Line { random, base, segment, crowd: 0, clock: 1_000_000, delivered: 0 }
    }

    /// The acknowledgements of a round trip in which the flow has so many segments in flight.
    fn round(&mut self, segments: u64) -> Vec<Ack> {
        if self.random.chance(0.4) {
            let most = (3 * self.segment).max(30_000);
            self.crowd = if self.random.chance(0.5) { 0 } else { self.random.below(most) };
        }
        let (began, before) = (self.clock, self.delivered);
        let mut acks = Vec::new();
        let mut arrived = 0;
        while arrived < segments {
            let together = if self.random.chance(0.5) { (segments - arrived).min(2) } else { 1 };
            arrived += together;
            let timer = if self.random.chance(0.2) { self.random.below(40_000) } else { 0 };
            let rtt = self.base + self.crowd + arrived * self.segment + timer + self.random.below(300);
            self.clock = (began + rtt).max(self.clock + 1);
            self.delivered += together * MSS;
            acks.push(Ack {
                clock: self.clock,
                rtt: self.clock - began,
                acked: together * MSS,
                delivered: self.delivered,
                prior_delivered: before,
                in_flight: (segments - arrived) * MSS,
                limited: self.random.chance(0.9),
            });
        }
        self.clock += self.random.below(50_000);
        acks
    }
}

/// What the simulator's rules make of a random path: what the C program reads, and the window and the threshold after each acknowledgement.
fn simulated(params: &NiceParams, seed: u64) -> (String, Vec<(u64, u64)>) {
    let config =
        CcConfig { mss: MSS, initial_window: 10 * MSS, initial_ssthresh: u64::MAX, seed: 0, saved: None };
    let mut nice = Algorithm::Nice(*params).build(&config);
    let mut line = Line::new(seed);
    let (mut lines, mut windows) = (String::new(), Vec::new());
    for _ in 0..300 {
        for ack in line.round((nice.cwnd() / MSS).clamp(2, 12)) {
            lines += &ack.line((nice.cwnd(), nice.ssthresh()));
            nice.on_ack(&ack.sample());
            windows.push((nice.cwnd(), nice.ssthresh().min(UNSET)));
        }
    }
    (lines, windows)
}

/// Builds the C program.
fn built(directory: &Path) -> PathBuf {
    let program = directory.join("rules");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/bpf/tests/rules.c");
    let made = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", env!("OUT_DIR")])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

/// The windows and thresholds that the C program prints.
fn in_c(program: &Path, params: &NiceParams, lines: &str) -> Vec<(u64, u64)> {
    let mut input = String::new();
    for word in Block::of(params).bytes().chunks_exact(4) {
        write!(input, "{} ", u32::from_ne_bytes(word.try_into().unwrap())).unwrap();
    }
    input += "\n";
    input += lines;
    let mut child = Command::new(program)
        // The leak sanitizer must trace the process, which not every sandbox allows.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let writes = std::thread::spawn(move || to.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writes.join().unwrap().unwrap();
    let number = |text: &str| -> u64 { text.parse().unwrap() };
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(window, threshold)| (number(window), number(threshold))).collect()
}

/// The parameters as the words hold them, so that a packet near a threshold is late in both or in none.
fn exact(params: NiceParams) -> NiceParams {
    let whole = f64::from(WHOLE);
    let held = |part: f64| (part * whole).ceil() / whole;
    NiceParams {
        threshold: held(params.threshold),
        fraction: held(params.fraction),
        decrease: held(params.decrease),
        target: held(params.target),
        ..params
    }
}

#[test]
fn the_rules_in_the_kernel_are_those_of_the_simulator() {
    let directory = tempfile::tempdir().unwrap();
    let program = built(directory.path());
    let plain = NiceParams::default();
    for params in [plain, NiceParams::paper(), NiceParams { own_packets: 0.0, ..plain }].map(exact) {
        for seed in 0..100 {
            let (lines, simulated) = simulated(&params, seed);
            let in_c = in_c(&program, &params, &lines);
            assert_eq!(simulated.len(), in_c.len());
            for (number, (ours, theirs)) in simulated.iter().zip(&in_c).enumerate() {
                // Each of up to sixteen reductions is rounded.
                let same = ours.0.abs_diff(theirs.0) <= 16 && ours.1.abs_diff(theirs.1) <= 16;
                let near: Vec<_> = lines
                    .lines()
                    .zip(simulated.iter().zip(&in_c))
                    .skip(number.saturating_sub(12))
                    .take(13)
                    .collect();
                assert!(
                    same,
                    "{params:?}, seed {seed}, acknowledgement {number}: {ours:?}, in C {theirs:?}; {near:#?}"
                );
            }
        }
    }
}
