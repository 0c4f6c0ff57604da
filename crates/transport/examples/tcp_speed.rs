//! How many segments per second two connections exchange, back to back over a path with a delay and nothing else: the cost
//! of TCP alone, without a network. Usage: `tcp_speed [window in segments] [millions of segments] [one loss in N]`.
#![allow(clippy::print_stdout, reason = "a measurement for people")]
#![allow(clippy::disallowed_methods, reason = "it measures how long the CPU takes")]

use std::collections::VecDeque;
use std::time::Instant;

use warpline_core::{Ecn, Segment, TimeDelta, Timestamp};
use warpline_transport::cc::{AckSample, CcConfig, CongestionControl, CongestionEvent, Phase};
use warpline_transport::tcp::{Connection, TcpConfig, Window};

/// Reno that stays near a given window.
#[derive(Debug)]
struct Steady {
    cwnd: u64,
    target: u64,
}

impl CongestionControl for Steady {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.cwnd_limited && ack.phase <= Phase::Disorder && self.cwnd < self.target {
            self.cwnd += (ack.mss * ack.acked / self.cwnd).max(1);
        }
    }
    fn reads_delivery_rate(&self) -> bool {
        false
    }
    fn on_congestion_event(&mut self, _: &CongestionEvent) {
        self.cwnd = self.cwnd * 9 / 10;
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.cwnd = event.mss;
    }
    fn undo(&mut self, _: Timestamp) {}
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.target
    }
    fn name(&self) -> &'static str {
        "steady"
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap_or(0));
    let window = arguments.next().unwrap_or(800).max(1);
    let goal = arguments.next().unwrap_or(20).max(1) * 1_000_000;
    let loss = arguments.next().unwrap_or(0);
    let config = TcpConfig { initial_window: Window::Segments(window as f64), ..TcpConfig::default() };
    let CcConfig { initial_window: cwnd, .. } = config.cc_config();
    let control = || Steady { cwnd, target: cwnd };
    let mut client = Connection::client(config.clone(), control());
    let mut server = Connection::server(config, control());
    let delay = TimeDelta::from_millis(25);
    let mut there: VecDeque<(Timestamp, Segment)> = VecDeque::new();
    let mut back: VecDeque<(Timestamp, Segment)> = VecDeque::new();
    let mut now = Timestamp::ZERO;
    let mut free_at = Timestamp::ZERO;
    let spacing = TimeDelta::from_nanos(50_000_000 / window);
    let (mut data, mut acks) = (0u64, 0u64);
    client.set_unlimited(true);
    client.open(now);
    let start = Instant::now();
    while data < goal {
        while let Some((segment, _)) = client.poll_transmit(now) {
            data += 1;
            if loss == 0 || data % loss != 0 {
                free_at = free_at.max(now) + spacing;
                there.push_back((free_at + delay, segment));
            }
        }
        while let Some((segment, _)) = server.poll_transmit(now) {
            acks += 1;
            back.push_back((now + delay, segment));
        }
        let at = |q: &VecDeque<(Timestamp, Segment)>| q.front().map_or(Timestamp::NEVER, |e| e.0);
        now = at(&there).min(at(&back)).min(client.poll_timeout()).min(server.poll_timeout());
        if now >= client.poll_timeout() {
            client.handle_timeout(now);
        }
        if now >= server.poll_timeout() {
            server.handle_timeout(now);
        }
        if at(&there) <= now
            && let Some((_, segment)) = there.pop_front()
        {
            server.handle_segment(now, &segment, Ecn::NotEct);
        }
        if at(&back) <= now
            && let Some((_, segment)) = back.pop_front()
        {
            client.handle_segment(now, &segment, Ecn::NotEct);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = client.stats();
    println!(
        "{data} segments and {acks} acknowledgements in {seconds:.3} s: {:.1} ns per data segment with its share of the \
         acknowledgements; {} retransmitted, {} time-outs; {} bytes per connection",
        seconds * 1e9 / data as f64,
        stats.retransmitted_segments,
        stats.rtos,
        size_of::<Connection<Steady>>(),
    );
}
