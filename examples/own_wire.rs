//! Two TCP connections on a wire of one's own, in virtual time: every hundredth packet with data is lost, and TCP repairs it.
//!
//! `cargo run --release --package warpline-transport --example own_wire`
#![allow(clippy::print_stdout, reason = "it is for people")]

use std::collections::VecDeque;
use std::error::Error;

use warpline_core::{Ecn, Rate, Segment, TimeDelta, Timestamp};
use warpline_transport::cc::{Algorithm, Controller};
use warpline_transport::tcp::{Connection, TcpConfig};

/// One direction: segments and when they arrive. A segment leaves when the one before it has left.
struct Wire {
    rate: Rate,
    delay: TimeDelta,
    free_at: Timestamp,
    under_way: VecDeque<(Timestamp, Segment)>,
}

impl Wire {
    fn new(rate: Rate, delay: TimeDelta) -> Self {
        Wire { rate, delay, free_at: Timestamp::ZERO, under_way: VecDeque::new() }
    }
    fn send(&mut self, now: Timestamp, segment: Segment) {
        self.free_at = self.free_at.max(now) + self.rate.time_for(u64::from(segment.wire_size()));
        self.under_way.push_back((self.free_at + self.delay, segment));
    }
    /// When the first segment arrives.
    fn next(&self) -> Timestamp {
        self.under_way.front().map_or(Timestamp::NEVER, |&(arrival, _)| arrival)
    }
    fn deliver(&mut self, now: Timestamp, to: &mut Connection<Controller>) {
        while self.next() <= now {
            let Some((_, segment)) = self.under_way.pop_front() else { break };
            to.handle_segment(now, &segment, Ecn::NotEct);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = TcpConfig::default();
    let control = || Algorithm::default().build(&config.cc_config());
    let mut client = Connection::client(config.clone(), control());
    let mut server = Connection::server(config.clone(), control());
    let (rate, delay) = ("10Mbit/s".parse()?, TimeDelta::from_millis(20));
    let (mut there, mut back) = (Wire::new(rate, delay), Wire::new(rate, delay));

    let mut now = Timestamp::ZERO;
    let (mut data_segments, mut shown) = (0u64, TimeDelta::ZERO);
    client.open(now);
    client.write(2_000_000);
    client.close();
    println!("    time  delivered   window");
    while !client.is_closed() {
        // What both ends have to send goes onto the wire, or is lost.
        while let Some((segment, _ecn)) = client.poll_transmit(now) {
            data_segments += u64::from(segment.len > 0);
            if segment.len == 0 || data_segments % 100 != 0 {
                there.send(now, segment);
            }
        }
        while let Some((segment, _ecn)) = server.poll_transmit(now) {
            back.send(now, segment);
        }
        // Virtual time jumps to what happens next: a segment arrives, or a timer is due.
        let timers = client.poll_timeout().min(server.poll_timeout());
        now = there.next().min(back.next()).min(timers);
        there.deliver(now, &mut server);
        back.deliver(now, &mut client);
        client.handle_timeout(now);
        server.handle_timeout(now);
        // The server closes when the client has.
        if server.peer_closed() {
            server.close();
        }
        if now >= Timestamp::ZERO + shown {
            let segments = client.window() / client.segment_payload();
            let (delivered, bar) = (server.bytes_delivered(), "#".repeat(segments as usize));
            println!("{:5} ms {:7} kB   {segments:3} {bar}", now.as_millis(), delivered / 1000);
            shown += TimeDelta::from_millis(100);
        }
    }
    let stats = client.stats();
    println!(
        "{} bytes arrived in {now}; {} segments were sent again, after {} recoveries and {} time-outs.",
        server.bytes_delivered(),
        stats.retransmitted_segments,
        stats.recoveries,
        stats.rtos,
    );
    Ok(())
}
