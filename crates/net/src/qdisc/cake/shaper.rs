//! CAKE's shaper: what a packet weighs on the bottleneck behind it, and when the next one may leave.
//!
//! The shaper has no bucket: it knows when the next packet is due, and each packet moves that time on by what it takes at the rate. A queue that
//! was empty starts afresh. Where dropped packets count, too (`ingress`), a second time, which only packets that are sent move, half as fast
//! again, keeps drops from stopping the queue.

use warpline_core::parameter::{Parameters, Words};
use warpline_core::{Bytes, Rate, Timestamp};

use crate::serialise::ConstantRate;

/// Bytes of an ATM cell, and of its payload.
const CELL: (u32, u32) = (53, 48);
/// PTM adds a byte to each of so many.
const PTM_BLOCK: u32 = 64;

/// How the bottleneck behind the shaper packs packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum CakeAtm {
    /// As they are.
    #[default]
    Noatm,
    /// In ATM cells: whole cells of 48 bytes, for which 53 are sent (ADSL).
    Atm,
    /// In PTM: one byte more for each 64 or part of it (VDSL2).
    Ptm,
}

/// What a packet weighs on the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
pub struct CakeOverheadParams {
    /// Bytes that the bottleneck adds to each IP packet. Without it a packet counts with the link's `framing`.
    #[parameter(max = Some(Bytes(256)))]
    pub overhead: Option<Bytes>,
    /// What every packet counts at least, overhead included.
    #[parameter(max = Bytes(256))]
    pub mpu: Bytes,
    /// How the bottleneck packs packets.
    pub atm: CakeAtm,
}

/// The lengths of packets as the shaper counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overhead {
    /// Bytes of the link's own framing that do not count.
    without: u32,
    added: u32,
    least: u32,
    atm: CakeAtm,
}

impl Overhead {
    /// On a link with so many bytes of framing.
    pub(super) fn new(params: &CakeOverheadParams, framing: u32) -> Self {
        let (without, added) = match params.overhead {
            Some(Bytes(bytes)) => (framing, bytes.min(256) as u32),
            None => (0, 0),
        };
        Overhead { without, added, least: params.mpu.0.min(256) as u32, atm: params.atm }
    }

    /// What a packet of `size` bytes on the link counts.
    pub(super) fn length(&self, size: u32) -> u32 {
        let bare = size.saturating_sub(self.without).saturating_add(self.added).max(self.least);
        match self.atm {
            CakeAtm::Noatm => bare,
            CakeAtm::Atm => bare.div_ceil(CELL.1).saturating_mul(CELL.0),
            CakeAtm::Ptm => bare.saturating_add(bare.div_ceil(PTM_BLOCK)),
        }
    }
}

/// When the next packet may leave.
#[derive(Debug)]
pub(super) struct Shaper {
    /// None without a rate.
    rate: Option<ConstantRate>,
    next: Timestamp,
    /// When one may leave whatever has been dropped.
    failsafe: Timestamp,
}

impl Shaper {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Shaper { rate: rate.map(ConstantRate::new), next: Timestamp::ZERO, failsafe: Timestamp::ZERO }
    }

    /// Whether there is a rate to keep to.
    pub(super) fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// When a packet may leave.
    pub(super) fn due(&self) -> Timestamp {
        self.next.min(self.failsafe)
    }

    /// A packet comes into an empty queue: what was not sent while it was empty is not made up for.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
        }
    }

    /// A packet that counts `length` bytes was sent, or dropped.
    pub(super) fn charge(&mut self, length: u32, sent: bool) {
        let Some(rate) = &mut self.rate else { return };
        let before = self.next;
        self.next = rate.finish_of(before, u64::from(length) * 8);
        if sent {
            let took = self.next.saturating_since(before);
            self.failsafe = self.failsafe + took + took.mul_f64(0.5);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::TimeDelta;

    fn length(overhead: Option<u64>, mpu: u64, atm: CakeAtm, framing: u32, size: u32) -> u32 {
        let params = CakeOverheadParams { overhead: overhead.map(Bytes), mpu: Bytes(mpu), atm };
        Overhead::new(&params, framing).length(size)
    }

    #[test]
    fn a_packet_counts_as_the_bottleneck_packs_it() {
        // Without `overhead`, as the link counts it; with it, from the IP header on.
        assert_eq!(length(None, 0, CakeAtm::Noatm, 14, 1514), 1514);
        assert_eq!(length(Some(38), 0, CakeAtm::Noatm, 14, 1514), 1538);
        assert_eq!(length(Some(38), 84, CakeAtm::Noatm, 0, 40), 84);
        // PPPoE over ATM with 40 bytes: 1500 + 40 are 33 cells; 40 + 40 are two, and 57 + 40 are three.
        assert_eq!(length(Some(40), 0, CakeAtm::Atm, 0, 1500), 33 * 53);
        assert_eq!(length(Some(40), 0, CakeAtm::Atm, 0, 56), 2 * 53);
        assert_eq!(length(Some(40), 0, CakeAtm::Atm, 0, 57), 3 * 53);
        // VDSL2: 1500 + 30 are 24 blocks of 64, the last one not full.
        assert_eq!(length(Some(30), 0, CakeAtm::Ptm, 0, 1500), 1530 + 24);
    }

    #[test]
    fn the_long_run_rate_is_exact_and_idle_time_is_not_made_up_for() {
        // 1500 bytes take 923.076923 us at 13 Mbit/s: a thousand take 923.076923 ms, and not a thousand rounded times.
        let mut shaper = Shaper::new(Some(Rate::from_bps(13_000_000)));
        for _ in 0..1000 {
            shaper.charge(1500, true);
        }
        assert_eq!(shaper.due(), Timestamp::from_nanos(923_076_923));
        let later = Timestamp::from_secs(5);
        shaper.begin(later);
        shaper.charge(1500, true);
        assert_eq!(shaper.due(), later + TimeDelta::from_nanos(923_076));
    }

    #[test]
    fn drops_hold_back_what_follows_only_by_half() {
        // A packet takes a millisecond. After one that was sent and nine that were dropped, the next is due after 1.5 ms and not after 10.
        let mut shaper = Shaper::new(Some(Rate::from_bps(12_000_000)));
        shaper.charge(1500, true);
        (0..9).for_each(|_| shaper.charge(1500, false));
        assert_eq!(
            (shaper.next, shaper.due()),
            (Timestamp::from_millis(10), Timestamp::from_nanos(1_500_000))
        );
    }
}
