//! The driver: the only loop. It lets the network handle what is due and asks the clock to wait for the rest.

use warpline_core::{Clock, Timestamp};

use crate::hosts::{Hosts, Pause};
use crate::network::Network;

/// An observer's decision between two batches of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Continue.
    Continue,
    /// Stop here; what was measured counts.
    Stop,
}

/// Runs a network under a clock.
#[derive(Debug)]
pub struct Driver<C> {
    clock: C,
    batch: u64,
}

/// Events between two calls of the observer: some milliseconds of work, so that Ctrl-C and progress feel immediate.
const BATCH: u64 = 100_000;

impl<C: Clock> Driver<C> {
    /// A driver that waits with `clock`.
    pub fn new(clock: C) -> Self {
        Driver { clock, batch: BATCH }
    }

    /// Runs the network up to and including `until`. Calls `observe` after every batch of events; it takes
    /// records out and can stop the run. Returns whether `until` was reached.
    pub fn run<H: Hosts>(
        &mut self,
        network: &mut Network,
        hosts: &mut H,
        until: Timestamp,
        mut observe: impl FnMut(&mut Network, &mut H) -> Control,
    ) -> bool {
        loop {
            let horizon = self.clock.horizon(until);
            let pause = network.run_until(horizon, hosts, self.batch);
            if observe(network, hosts) == Control::Stop {
                return false;
            }
            if pause == Pause::Budget {
                continue;
            }
            if horizon >= until {
                return true;
            }
            let next = network.next_event().unwrap_or(until).min(until);
            self.clock.wait_until(next);
        }
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{
        Datagram, EndpointId, FlowId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Wake,
    };

    use crate::{LinkConfig, Port, RateConfig, RouteId};

    /// A clock that passes: each reading takes a while, and it wakes early or late as configured.
    #[derive(Debug)]
    struct Passing {
        now: u64,
        look: u64,
        /// By how many nanoseconds to wake late (early, if negative), in turn; what is early is an interruption.
        wakes: Vec<i64>,
        waits: usize,
        /// The longest the clock was ever asked to wait for.
        furthest: Timestamp,
    }

    impl Passing {
        fn new(look: u64, wakes: &[i64]) -> Self {
            Passing { now: 0, look, wakes: wakes.to_vec(), waits: 0, furthest: Timestamp::ZERO }
        }
    }

    impl Clock for Passing {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(self.now)
        }
        fn wait_until(&mut self, deadline: Timestamp) -> Wake {
            self.furthest = self.furthest.max(deadline);
            let off = self.wakes[self.waits % self.wakes.len()];
            self.waits += 1;
            let woken = deadline.as_nanos().saturating_add_signed(off);
            // However early, some time has passed.
            self.now = (self.now + 1).max(woken);
            if self.now < deadline.as_nanos() { Wake::Interrupted } else { Wake::Reached }
        }
        fn horizon(&mut self, limit: Timestamp) -> Timestamp {
            self.now += self.look;
            self.now().min(limit)
        }
    }

    /// A ping-pong over two links, until the end of the run, and a tick each millisecond.
    #[derive(Debug)]
    struct Pair {
        routes: [RouteId; 2],
        log: Vec<(u64, u64)>,
    }

    fn packet(to: u32) -> Packet {
        Packet { size: 500, ..Packet::udp(FlowId(0), EndpointId(to), Datagram::default()) }
    }

    impl Hosts for Pair {
        fn handle_packet(&mut self, now: Timestamp, received: &Packet, port: &mut Port<'_>) {
            self.log.push((now.as_nanos(), received.id));
            let back = 1 - received.to.0;
            port.send(self.routes[back as usize], packet(back));
        }
        fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
            self.log.push((now.as_nanos(), u64::MAX));
            port.set_timer(timer, now + TimeDelta::from_millis(1));
        }
    }

    fn pair() -> (Network, Pair) {
        let mut network = Network::new();
        let mut route = |from: u32| {
            let id = network.add_link(
                LinkConfig {
                    rate: RateConfig::Constant(Rate::from_bps(10_000_000)),
                    delay: TimeDelta::from_micros(130),
                    // One way with an event per departure.
                    record: from == 0,
                    ..LinkConfig::new(format!("{from}"), NodeId(from), NodeId(1 - from))
                },
                &Streams::new(1),
            );
            network.add_route(&[id]).unwrap()
        };
        // Route 1 leads to endpoint 1.
        let to_one = route(0);
        let routes = [route(1), to_one];
        let mut port = network.port(Timestamp::ZERO);
        port.send(to_one, packet(1));
        port.set_timer(TimerId(2), Timestamp::from_millis(1));
        (network, Pair { routes, log: Vec::new() })
    }

    const END: Timestamp = Timestamp::from_millis(50);

    #[test]
    fn events_come_at_their_own_time_whatever_the_clock_does() {
        let (mut network, mut expected) = pair();
        let reached = Driver::new(warpline_core::time::VirtualClock::default()).run(
            &mut network,
            &mut expected,
            END,
            |_, _| Control::Continue,
        );
        assert!(reached && network.now() == END);
        assert_eq!(expected.log[0], (530_000, 0));
        assert_eq!(expected.log.len(), 50 + 94); // 50 ms of 1 ms ticks and of 530 us crossings

        for (look, wakes) in [
            (0, &[0][..]),                     // exact
            (7, &[1, 90_000]),                 // late
            (0, &[-40_000, -1, 3_000_000, 0]), // interrupted, then late by several events
            (400_000, &[-1_000_000_000, 5]),   // slow to look, interrupted at once
        ] {
            let (mut network, mut hosts) = pair();
            let mut driver = Driver::new(Passing::new(look, wakes));
            let reached = driver.run(&mut network, &mut hosts, END, |network, _| {
                assert!(network.now() <= END);
                Control::Continue
            });
            assert!(reached && network.now() == END && driver.clock().now() >= END);
            assert!(driver.clock().waits > 0 && driver.clock().furthest <= END);
            assert_eq!(hosts.log, expected.log, "{wakes:?}");
        }
    }

    #[test]
    fn nothing_is_handled_before_the_clock_has_come_there() {
        let (mut network, mut hosts) = pair();
        let mut driver = Driver::new(Passing::new(11, &[-20_000, 13]));
        // The clock is shown to the observer by what it has let through: no event is later than the last horizon.
        let mut batches = 0;
        while driver.clock().now() < END {
            let before = hosts.log.len();
            let stopped = !driver.run(&mut network, &mut hosts, END, |_, _| Control::Stop);
            batches += 1;
            assert!(stopped);
            assert!(hosts.log[before..].iter().all(|&(time, _)| time <= driver.clock().now().as_nanos()));
            let next = network.next_event().unwrap();
            driver.clock.wait_until(next);
        }
        assert!(batches > 100 && hosts.log.len() > 100);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_full_batch_does_not_wait_and_stop_keeps_what_was_measured() {
        let (mut network, mut hosts) = pair();
        let mut driver = Driver { clock: Passing::new(0, &[0]), batch: 1 };
        let mut looks = 0;
        let reached = driver.run(&mut network, &mut hosts, END, |_, hosts: &mut Pair| {
            looks += 1;
            if hosts.log.len() == 10 { Control::Stop } else { Control::Continue }
        });
        assert!(!reached && hosts.log.len() == 10 && looks >= 10);
        assert_eq!(network.now().as_nanos(), hosts.log[9].0);
        // It goes on from there as if nothing had been.
        driver.run(&mut network, &mut hosts, END, |_, _| Control::Continue);
        let (mut whole, mut expected) = pair();
        whole.run_until(END, &mut expected, u64::MAX);
        assert_eq!(hosts.log, expected.log);
    }

    #[test]
    fn what_arrives_from_outside_interrupts_the_wait_and_is_sent_at_once() {
        let (mut network, mut hosts) = pair();
        let mut driver = Driver::new(Passing::new(0, &[-100_000, 0]));
        let mut sent = Vec::new();
        driver.run(&mut network, &mut hosts, END, |network, hosts: &mut Pair| {
            let now = network.now();
            if sent.len() < 20 && network.next_event().is_none_or(|next| next > now) {
                network.port(now).send(hosts.routes[0], packet(0));
                sent.push(now);
            }
            Control::Continue
        });
        assert_eq!(sent.len(), 20);
        assert!(sent.windows(2).all(|pair| pair[0] <= pair[1]));
        let (sent, delivered, under_way) = network.packets();
        assert!(sent > 100 && sent as i64 == delivered as i64 + under_way);
    }
}
