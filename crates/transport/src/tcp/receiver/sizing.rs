//! A receive buffer that grows with the transfer, so that it never limits the sender and takes no more memory than it needs.
//!
//! Source: Linux `net/ipv4/tcp_input.c` (`tcp_rcv_space_adjust`, `tcp_rcv_rtt_update`). In each round trip there is to be room for twice what the application
//! took in the last one, because a loss holds up a window behind it. If it took more than in the round trip before, there is room for further growth of that kind.
//!
//! Departures: the room is in bytes of payload, where Linux counts the memory of packets, and half of it as payload. What waits in the buffer takes no
//! memory from it. What the application takes late is noticed when the next segment arrives.

use warpline_core::{Segment, Timestamp};

/// Full segments for which there is room beyond twice what came, because rates vary a little.
const CUSHION: u64 = 16;
/// Segments that count as those of the round trip before the first one (Linux tcp_init_buffer_space: the initial window).
const FIRST: u64 = 10;

/// The size of the buffer, and what decides it.
#[derive(Debug)]
pub(super) struct Sizing {
    /// Bytes of payload for which there is room.
    room: u64,
    /// Bytes that the application took in the last round trip that is known, and zero before.
    taken: u64,
    /// Where and when the present round trip began.
    from: u64,
    since: Timestamp,
    /// Round-trip time in nanoseconds, smoothed; zero if not known.
    rtt: u64,
    /// The last timestamp that a segment echoed.
    echo: Option<u32>,
    /// Once all before this byte has come, the window that was offered at that time is used up, which takes a round trip at least.
    used_at: u64,
    offered: Timestamp,
}

impl Sizing {
    pub(super) fn new(room: u64) -> Box<Sizing> {
        Box::new(Sizing {
            room,
            taken: 0,
            from: 1,
            since: Timestamp::ZERO,
            rtt: 0,
            echo: None,
            used_at: 0,
            offered: Timestamp::NEVER,
        })
    }

    /// Bytes of payload for which there is room.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// A segment arrived. `full` is the size of a full one, and `nxt` and `edge` are the window before it.
    pub(super) fn on_segment(&mut self, now: Timestamp, segment: &Segment, full: u32, nxt: u64, edge: u64) {
        if let Some((_, echo)) = segment.timestamps
            && self.echo.replace(echo) != Some(echo)
            && segment.len >= full
        {
            let millis = (now.as_millis() as u32).wrapping_sub(echo);
            if millis < i32::MAX as u32 / 1000 {
                let rtt = u64::from(millis.max(1)) * 1_000_000;
                self.rtt = if self.rtt == 0 { rtt } else { self.rtt - self.rtt / 8 + rtt / 8 };
            }
        }
        if nxt < self.used_at {
            return;
        }
        if self.offered.is_set() {
            // The sender may have waited as well, so only a shorter one counts.
            let rtt = now.saturating_since(self.offered).as_nanos().max(1);
            self.rtt = if self.rtt == 0 { rtt } else { self.rtt.min(rtt) };
        }
        (self.used_at, self.offered) = (edge, now);
    }

    /// The application has taken all before `read`. Makes room for more at the end of a round trip, up to `most`.
    pub(super) fn on_read(&mut self, now: Timestamp, read: u64, full: u32, most: u64) {
        let full = u64::from(full);
        if self.taken == 0 {
            self.taken = (FIRST * full).min(self.room).max(1);
        }
        if self.rtt == 0 || now.saturating_since(self.since).as_nanos() < self.rtt {
            return;
        }
        let taken = read.saturating_sub(self.from);
        if taken > self.taken {
            let steady = 2 * taken + CUSHION * full;
            let growth = u128::from(steady) * u128::from(taken - self.taken) / u128::from(self.taken);
            let wanted = u128::from(steady) + 2 * growth;
            self.room = self.room.max(wanted.min(u128::from(most)) as u64);
            self.taken = taken;
        }
        (self.from, self.since) = (read, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u32 = 1000;

    /// A round trip of 100 ms, with so many segments.
    fn round(sizing: &mut Sizing, began: Timestamp, nxt: &mut u64, segments: u64) -> u64 {
        for number in 0..segments {
            let now = Timestamp::from_nanos(began.as_nanos() + number * 1_000_000);
            let sent = (now.as_millis() - 100) as u32;
            let segment =
                Segment { seq: *nxt, len: FULL, timestamps: Some((sent, sent)), ..Segment::default() };
            sizing.on_segment(now, &segment, FULL, *nxt, *nxt + sizing.room());
            *nxt += u64::from(FULL);
            sizing.on_read(now, *nxt, FULL, 300_000);
        }
        sizing.room()
    }

    #[test]
    fn there_is_room_for_twice_a_round_trip_and_for_its_growth() {
        let (mut sizing, mut nxt) = (Sizing::new(20_000), 1);
        let mut at = |n: u64, segments: u64| {
            let began = Timestamp::from_millis(100 + 100 * n);
            round(&mut sizing, began, &mut nxt, segments)
        };
        // The first segment begins the first round trip that is measured.
        assert_eq!(at(0, 10), 20_000);
        // When the next one begins, 10 have come, as many as were expected.
        assert_eq!(at(1, 20), 20_000);
        // 20 came, which are twice as many: 2 * 20 + 16, and twice that on top.
        assert_eq!(at(2, 30), 168_000);
        // 30 for 20: 76, and as much again.
        assert_eq!(at(3, 30), 168_000);
        // As many again change nothing, fewer take nothing away, and more than `most` is never given.
        assert_eq!(at(4, 10), 168_000);
        assert_eq!(at(5, 90), 168_000);
        assert_eq!(at(6, 1), 300_000);
    }

    #[test]
    fn without_timestamps_a_round_trip_is_the_time_that_a_window_takes() {
        let mut sizing = Sizing::new(10_000);
        let mut nxt = 1;
        for number in 0..40u64 {
            let now = Timestamp::from_millis(10 * number);
            let segment = Segment { seq: nxt, len: FULL, ..Segment::default() };
            sizing.on_segment(now, &segment, FULL, nxt, nxt + 8000);
            nxt += u64::from(FULL);
            sizing.on_read(now, nxt, FULL, 300_000);
        }
        assert_eq!(sizing.rtt, 80_000_000);
        assert_eq!(sizing.room(), 10_000, "no more comes in a round trip than the initial window");
    }
}
