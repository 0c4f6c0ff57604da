//! A server of capacity tests under a flood of hostile datagrams: what it does to an honest client's result, and to the server's memory.
//!
//! ```text
//! flood [--rounds N] [--seconds S] [--pps N] [--addresses N] [--rate MBIT/S] [--keyed] [SHAPE...]
//! ```
//!
//! Everything happens on the loopback interface of a network namespace of its own (`unshare -rn`), so nothing leaves it. In every round
//! the honest client measures alone and then under each shape of attack; a line of JSON has the results. The attacker sends at most
//! `--pps` times `--seconds` datagrams, from `--addresses` different addresses of 127.0.0.0/8.
//!
//! Shapes: `random` bytes, `hello` (well-formed introductions), `truncated` messages, `replay` (another client's opening), `cookie` (openings
//! with forged cookies), `segment` (segments of forged sessions). The default is all.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program prints what it measured")]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), flood::Error> {
    flood::main()
}

#[cfg(target_os = "linux")]
mod flood {
    use std::io::{BufRead as _, BufReader, IoSlice};
    use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
    use std::os::fd::AsRawFd as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use nix::libc;
    use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};
    use warpline_capacity::{CapClient, CapOptions, HELLO, Identity, Outcome, ServerLimits, VERSION};
    use warpline_core::{Rate, TimeDelta, Timestamp};
    use warpline_live::clock::RealClock;
    use warpline_live::measure::cap::{CapConfig, run};
    use warpline_live::measure::capd::{CapdConfig, CapdEvent, serve};

    pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

    const SHAPES: [&str; 6] = ["random", "hello", "truncated", "replay", "cookie", "segment"];
    const KEY: &[u8] = b"the key of this experiment";
    /// Datagrams from one address in a row.
    const BATCH: usize = 10;

    #[derive(Clone, Debug)]
    struct Plan {
        rounds: u32,
        seconds: u64,
        pps: u64,
        addresses: u32,
        mbps: u64,
        keyed: bool,
        shapes: Vec<String>,
    }

    pub(crate) fn main() -> Result<(), Error> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        match words.first().map(String::as_str) {
            Some("server") => server(words.get(1).is_some_and(|word| word == "keyed")),
            Some("attack") => attack(&words[1..]),
            Some("inside") => inside(&plan(&words[1..])?),
            _ => {
                plan(&words)?;
                let mut command = Command::new("unshare");
                command.args(["-rn", "--"]).arg(std::env::current_exe()?).arg("inside").args(&words);
                let status = command.status()?;
                if status.success() {
                    Ok(())
                } else {
                    Err(format!("the experiment ended with {status}").into())
                }
            }
        }
    }

    fn plan(words: &[String]) -> Result<Plan, Error> {
        let mut plan = Plan {
            rounds: 5,
            seconds: 5,
            pps: 100_000,
            addresses: 1000,
            mbps: 50,
            keyed: false,
            shapes: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, Error> {
                Ok(words.next().ok_or_else(|| format!("{word} needs a number"))?.parse()?)
            };
            match word.as_str() {
                "--rounds" => plan.rounds = number()? as u32,
                "--seconds" => plan.seconds = number()?.clamp(1, 60),
                "--pps" => plan.pps = number()?.clamp(1, 1_000_000),
                "--addresses" => plan.addresses = number()?.clamp(1, 60_000) as u32,
                "--rate" => plan.mbps = number()?,
                "--keyed" => plan.keyed = true,
                shape if SHAPES.contains(&shape) => plan.shapes.push(shape.to_owned()),
                other => return Err(format!("`{other}` is none of {}", SHAPES.join(", ")).into()),
            }
        }
        if plan.shapes.is_empty() {
            plan.shapes = SHAPES.map(str::to_owned).to_vec();
        }
        Ok(plan)
    }

    fn server(keyed: bool) -> Result<(), Error> {
        let limits = ServerLimits { key: keyed.then(|| KEY.to_vec()), ..ServerLimits::default() };
        let config = CapdConfig { listen: "127.0.0.1:0".parse()?, limits, offload: true, tests: None };
        serve(&config, &AtomicBool::new(false), &mut |event| {
            if let CapdEvent::Listening(address) = event {
                println!("{address}");
            }
        })?;
        Ok(())
    }

    fn client(server: SocketAddr, plan: &Plan) -> CapConfig {
        CapConfig {
            server,
            options: CapOptions {
                duration: TimeDelta::from_secs(plan.seconds),
                max_rate: Some(Rate::from_bps(plan.mbps * 1_000_000)),
                ..CapOptions::default()
            },
            key: plan.keyed.then(|| KEY.to_vec()),
            patience: TimeDelta::from_secs(30),
            interval: TimeDelta::from_secs(1),
            trace: false,
            offload: true,
        }
    }

    /// A process that ends when this value is dropped.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Resident memory in kB, and processor time in seconds.
    fn usage(process: &Child) -> (u64, f64) {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{}/{file}", process.id())).unwrap_or_default()
        };
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let rss = line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let nanos = read("schedstat").split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        (rss, nanos.unwrap_or(0) as f64 / 1e9)
    }

    fn inside(plan: &Plan) -> Result<(), Error> {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
        if !up.success() {
            return Err("cannot set the loopback interface up".into());
        }
        let exe = std::env::current_exe()?;
        let mut command = Command::new(&exe);
        command.arg("server").args(plan.keyed.then_some("keyed")).stdout(Stdio::piped());
        let mut server = Process(command.spawn()?);
        let mut line = String::new();
        let stdout = server.0.stdout.take().ok_or("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address: SocketAddr = line.trim().parse()?;
        let first = usage(&server.0).0;
        for round in 1..=plan.rounds {
            for shape in &plan.shapes {
                let alone = measure(&server.0, address, plan, None)?;
                let mut command = Command::new(&exe);
                let numbers = [plan.pps, plan.seconds + 2, u64::from(plan.addresses)].map(|n| n.to_string());
                command
                    .arg("attack")
                    .arg(shape)
                    .arg(address.to_string())
                    .args(numbers)
                    .stdout(Stdio::piped());
                let mut attacker = Process(command.spawn()?);
                let output = attacker.0.stdout.take().ok_or("the attacker has no output")?;
                let mut output = BufReader::new(output);
                // It reports when it begins, and at the end how many it sent.
                output.read_line(&mut String::new())?;
                let attacked = measure(&server.0, address, plan, Some(&attacker.0))?;
                let mut sent = String::new();
                output.read_line(&mut sent)?;
                let (sent, span) = sent.trim().split_once(' ').ok_or("the attacker says nothing")?;
                println!(
                    "{}",
                    serde_json::json!({
                        "round": round,
                        "shape": shape,
                        "keyed": plan.keyed,
                        "alone_mbps": alone.mbps,
                        "attacked_mbps": attacked.mbps,
                        "ratio": attacked.mbps / alone.mbps,
                        "outcome": format!("{:?}", attacked.outcome),
                        "lost_in_host": attacked.drops,
                        "datagrams": sent.parse::<u64>()?,
                        "datagrams_per_s": sent.parse::<f64>()? / span.parse::<f64>()?,
                        "server_core": attacked.server_core,
                        "server_core_alone": alone.server_core,
                        "attacker_core": attacked.attacker_core,
                        "rss_kb": [first, alone.rss_kb, attacked.rss_kb],
                    })
                );
            }
        }
        Ok(())
    }

    struct Measured {
        mbps: f64,
        outcome: Outcome,
        drops: u64,
        server_core: f64,
        attacker_core: f64,
        rss_kb: u64,
    }

    fn measure(
        server: &Child,
        address: SocketAddr,
        plan: &Plan,
        attacker: Option<&Child>,
    ) -> Result<Measured, Error> {
        let config = client(address, plan);
        let clock = RealClock::start();
        let before = (clock.now(), usage(server).1, attacker.map_or(0.0, |child| usage(child).1));
        let run = run(&config, &AtomicBool::new(false), &mut |_| {})?;
        let span = clock.now().saturating_since(before.0).as_secs_f64();
        let (rss_kb, server_s) = usage(server);
        let sender = run.own.sender.unwrap_or_default();
        Ok(Measured {
            mbps: sender.data_bytes as f64 * 8e3 / sender.elapsed_ns.max(1) as f64,
            outcome: run.outcome,
            drops: run.peer.map_or(0, |peer| peer.host.receive_drops),
            server_core: (server_s - before.1) / span,
            attacker_core: (attacker.map_or(0.0, |child| usage(child).1) - before.2) / span,
            rss_kb,
        })
    }

    /// xorshift64* (Marsaglia 2003; Vigna 2016): bytes that cannot be correct by chance.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }
        fn fill(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = (self.next() >> 56) as u8;
            }
        }
    }

    /// The opening of a client at its own address, for others to replay.
    fn opening(server: SocketAddr) -> Result<Vec<u8>, Error> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        let identity = Identity {
            nonce: [5; 16],
            key: None,
            wall_us: 0,
            phase: TimeDelta::ZERO,
            ipv6: false,
            patience: TimeDelta::from_secs(5),
            trace: false,
        };
        let mut client = CapClient::new(CapOptions::default(), identity);
        let now = Timestamp::from_millis(1);
        let mut bytes = Vec::new();
        client.poll_transmit(now, &mut bytes);
        socket.send_to(&bytes, server)?;
        let mut answer = [0; 2048];
        let len = socket.recv(&mut answer)?;
        client.handle_datagram(now, now, &answer[..len], false);
        bytes.clear();
        client.poll_transmit(now, &mut bytes);
        Ok(bytes)
    }

    /// A datagram of a shape.
    fn craft(shape: &str, noise: &mut Noise, opening: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let message = |kind: u8, len: usize, noise: &mut Noise, out: &mut Vec<u8>| {
            out.resize(len, 0);
            noise.fill(out);
            out[..2].copy_from_slice(&[VERSION, kind]);
        };
        match shape {
            "hello" => message(1, HELLO, noise, out),
            "truncated" => {
                let kind = (noise.next() % 10) as u8;
                let len = 2 + (noise.next() % 40) as usize;
                message(kind, len, noise, out);
            }
            "replay" => out.extend_from_slice(opening),
            "cookie" => {
                out.extend_from_slice(opening);
                noise.fill(&mut out[26..42]);
            }
            "segment" => message(6, 100, noise, out),
            _ => {
                out.resize(100, 0);
                noise.fill(out);
            }
        }
    }

    fn attack(words: &[String]) -> Result<(), Error> {
        let [shape, server, pps, seconds, addresses] = words else {
            return Err("five words are needed".into());
        };
        let server: SocketAddrV4 = server.parse()?;
        let (pps, seconds, addresses): (u64, u64, u32) = (pps.parse()?, seconds.parse()?, addresses.parse()?);
        let opening = opening(server.into())?;
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut headers =
            MultiHeaders::<SockaddrIn>::preallocate(BATCH, Some(nix::cmsg_space!(libc::in_pktinfo)));
        let to = vec![Some(SockaddrIn::from(server)); BATCH];
        let mut datagrams = vec![Vec::new(); BATCH];
        let (most, mut sent, mut from) = (pps * seconds, 0, 0);
        let clock = RealClock::start();
        println!("begin");
        let over = AtomicBool::new(false);
        while !over.load(Ordering::Relaxed) {
            let elapsed = clock.now().saturating_since(Timestamp::ZERO).as_secs_f64();
            if elapsed >= seconds as f64 || sent >= most {
                over.store(true, Ordering::Relaxed);
            }
            let due = (elapsed * pps as f64) as u64;
            if sent >= due {
                std::thread::park_timeout(Duration::from_micros(500));
                continue;
            }
            // Datagrams that could not be sent in time are skipped, except for a hundredth of a second's worth.
            let most_now = (due - sent).min(pps / 100 + 1);
            let mut now = 0;
            while now < most_now {
                for datagram in &mut datagrams {
                    craft(shape, &mut noise, &opening, datagram);
                }
                from = (from + 1) % addresses;
                let source = Ipv4Addr::from(0x7f02_0001 + from);
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from(source).to_be() },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let slices: Vec<[IoSlice<'_>; 1]> =
                    datagrams.iter().map(|bytes| [IoSlice::new(bytes)]).collect();
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                let gone =
                    sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &to, control, MsgFlags::empty());
                now += gone.map_or(1, |gone| gone.count() as u64);
            }
            sent += now;
        }
        println!("{sent} {}", clock.now().saturating_since(Timestamp::ZERO).as_secs_f64());
        Ok(())
    }
}
