//! What stacks cost: nanoseconds for each packet that a stack handles or makes, and for each change of the instance that runs.
//!
//! `cargo bench --package warpline-stacks --bench stacks`. The stacks in shared objects are those that `make stacks` has built.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures time, and prints it"
)]
mod linux {
    use std::ffi::c_void;
    use std::process::Command;
    use std::time::Instant;

    use warpline_core::{Streams, TimeDelta, Timestamp};
    use warpline_scenario::Endpoint;
    use warpline_stacks::stack::globaliser::{Object, Way};
    use warpline_stacks::stack::{Builder, Event, Place, SocketId, SocketOptions, Stack};

    pub(super) fn main() {
        println!("changing the instance that runs, of 100");
        for words in [100, 1_000, 10_000, 100_000] {
            for way in [Way::Swap, Way::Map, Way::Object] {
                println!("  {:>7} bytes  {way:?}: {:>8.0} ns", 8 * words, change(words, way));
            }
        }
        println!("a packet, of 100 MB from one host to another");
        for endpoint in [
            Endpoint::Smoltcp(Default::default()),
            Endpoint::Lwip(Default::default()),
            Endpoint::Bsd(Default::default()),
            Endpoint::Netstack(Default::default()),
            Endpoint::Quinn(Default::default()),
            Endpoint::Sctp(Default::default()),
        ] {
            match packet(&endpoint) {
                Ok(nanos) => println!("  {}: {nanos:.0} ns", endpoint.about().name),
                Err(why) => println!("  {}: {why}", endpoint.about().name),
            }
        }
    }

    /// Nanoseconds of a change between instances of an object with so many words of variables, and of a call of it.
    fn change(words: usize, way: Way) -> f64 {
        let desk = tempfile::tempdir().expect("a directory");
        let (source, path) = (desk.path().join("a.c"), desk.path().join("a.so"));
        let text = format!(
            "static long many[{words}]; long count(void); long count(void) {{ return ++many[{words} / 2]; }}\n"
        );
        std::fs::write(&source, text).expect("a file");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(&path).arg(&source).status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc has failed");
        let object = Object::load(&path, "count", Some(way)).expect("an object");
        let functions: Vec<extern "C" fn() -> i64> = (0..100)
            .map(|_| {
                let address =
                    object.add().and_then(|new| object.function(new, "count")).expect("an instance");
                // SAFETY: this is the function above.
                unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> i64>(address) }
            })
            .collect();
        let rounds = (2_000_000 / words).clamp(20, 2000);
        let begun = Instant::now();
        for _ in 0..rounds {
            for (instance, function) in functions.iter().enumerate() {
                object.enter(instance);
                function();
            }
        }
        begun.elapsed().as_nanos() as f64 / (rounds * functions.len()) as f64
    }

    /// Nanoseconds for each packet between two hosts that are a millisecond apart.
    fn packet(endpoint: &Endpoint) -> Result<f64, String> {
        let streams = Streams::new(1);
        let mut builder = Builder::default();
        let mut host = |last: u8| -> Result<Box<dyn Stack>, String> {
            let addresses = vec![[10, 0, 0, last].into()];
            let place = Place { addresses, mtu: 1500, stream: streams.stream(&format!("host.{last}")) };
            builder.build(endpoint, place)?.ok_or_else(|| "not in this build".to_owned())
        };
        let mut hosts = [host(1)?, host(2)?];
        let options = SocketOptions::default();
        let refused = |error: warpline_stacks::stack::SocketError| error.to_string();
        let mut now = Timestamp::ZERO;
        hosts[1].listen(now, 1, &options).map_err(refused)?;
        let socket = hosts[0].connect(now, ([10, 0, 0, 2], 1).into(), &options).map_err(refused)?;
        let (bytes, mut buffer, mut out) = (vec![7u8; 16 << 10], vec![0u8; 64 << 10], Vec::new());
        let (mut read, mut packets) = (0usize, 0u64);
        let mut spent = 0;
        while read < 100_000_000 {
            // All that is under way arrives at once; the other host's answers a millisecond later.
            for side in [0, 1] {
                let mut wire = Vec::new();
                let begun = Instant::now();
                while let Some(event) = hosts[side].poll_event() {
                    match event {
                        Event::Readable(own) => read += drain(&mut *hosts[side], now, own, &mut buffer),
                        Event::Connected(_) | Event::Writable(_) => {
                            while hosts[side].write(now, socket, &bytes) == bytes.len() {}
                        }
                        _ => {}
                    }
                }
                while hosts[side].poll_transmit(now, &mut out) {
                    wire.push(out.clone());
                }
                now += TimeDelta::from_millis(1);
                for packet in &wire {
                    hosts[1 - side].handle_packet(now, packet);
                }
                for host in &mut hosts {
                    if host.poll_timeout() <= now + TimeDelta::from_millis(1) {
                        host.handle_timeout(now + TimeDelta::from_millis(1));
                    }
                }
                spent += begun.elapsed().as_nanos();
                packets += wire.len() as u64;
            }
            if now > Timestamp::from_secs(3600) {
                return Err(format!("only {read} bytes have come"));
            }
        }
        // Each packet is made by one host and handled by another.
        Ok(spent as f64 / (2 * packets) as f64)
    }

    fn drain(host: &mut dyn Stack, now: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize {
        let mut all = 0;
        loop {
            match host.read(now, socket, buffer) {
                0 => return all,
                len => all += len,
            }
        }
    }
}
