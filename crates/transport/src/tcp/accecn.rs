//! The AccECN option of one connection: what a receiver counts and when it says so, and what a sender takes from it.
//!
//! Source: RFC 9768 sections 3.2.1 (the counters and where they begin) and 3.2.3 (the option). The receiver follows the simple scheme of section
//! 3.2.3.3: every acknowledgement has the option where a counter has grown since the last one, with a field for each counter that has ever
//! grown. Beside SACK blocks it may have to be shorter, or to go: two blocks have precedence. A sender that has the option takes the bytes that
//! came marked from it, where the ACE field has only the number of packets, modulo 8, and it need not fear that the field has gone round.
//!
//! Where the option does not come through, both ends go on with the ACE field. A server leaves the option out of a SYN/ACK that it sends again,
//! and then out of all it sends (section 3.2.3.2.2). So does a receiver that sees acknowledged data twice in a row with nothing new between. A
//! sender takes no notice of options whose counters began at zero (section 3.2.3.2.4).
//!
//! Departures: segments with payload have no option. Where one is due, an acknowledgement goes first, as with SACK blocks, so that a client's
//! first data has none either. A SYN/ACK that is sent for the third time keeps its flags. Without a field for CE, the counter is taken not to have
//! grown. Who has left off does not try again.

use warpline_core::{AccEcn, Ecn};

/// Bytes that options can take (RFC 9293 section 3.1).
const MAX_OPTIONS: usize = 40;
/// Where the counters begin: ECT(0), CE and ECT(1) (RFC 9768 section 3.2.1).
const START: [u32; 3] = [1, 0, 1];
/// Which of them counts CE.
const CE: usize = 1;
/// Segments in a row that came again, after which a receiver takes it that its acknowledgements with the option are lost.
const AGAIN: u8 = 2;

/// What a receiver counts, in bytes of payload.
#[derive(Clone, Debug)]
pub(super) struct ByteCounters {
    /// Arrived as ECT(0), marked, and as ECT(1).
    counts: [u32; 3],
    /// The same as the last option said it.
    told: [u32; 3],
    /// Segments in a row that had been acknowledged with the option before they came.
    again: u8,
}

impl ByteCounters {
    pub(super) fn new() -> Self {
        ByteCounters { counts: START, told: START, again: 0 }
    }

    /// So many bytes of payload arrived, of data that had been `acknowledged` or not.
    pub(super) fn count(&mut self, ecn: Ecn, bytes: u32, acknowledged: bool) {
        let counter = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => self.counts.first_mut(),
            Ecn::Ce => self.counts.get_mut(CE),
            Ecn::Ect1 => self.counts.last_mut(),
        };
        if let Some(counter) = counter {
            *counter = counter.wrapping_add(bytes);
        }
        self.again = if acknowledged { self.again.saturating_add(1) } else { 0 };
    }

    /// Whether acknowledgements with the option seem to be lost.
    pub(super) fn is_blocked(&self) -> bool {
        self.again >= AGAIN
    }
    /// Whether a counter has grown since the last option.
    pub(super) fn is_due(&self) -> bool {
        self.counts != self.told
    }

    /// Every counter, for the handshake.
    pub(super) fn all(&self) -> AccEcn {
        AccEcn::new(self.counts, false, 3)
    }

    /// The option for an acknowledgement whose other options take so many bytes, and that has so many SACK blocks to report; none where there is
    /// nothing to say, or no room. It counts as sent.
    pub(super) fn option(&mut self, others: usize, blocks: usize) -> Option<AccEcn> {
        if !self.is_due() {
            return None;
        }
        let grown = |place: usize| self.counts[place] != START[place];
        let ect1_first = grown(2) && !grown(0);
        let order = if ect1_first { [2, CE, 0] } else { [0, CE, 2] };
        // Every counter that has ever grown, else at least those that have since the last option.
        let ever = order.iter().rposition(|&place| grown(place))?;
        let since = order.iter().rposition(|&place| self.counts[place] != self.told[place])?;
        let room = MAX_OPTIONS.saturating_sub(others + sack_len(blocks.min(2)));
        let fields = [ever + 1, since + 1].into_iter().find(|&fields| AccEcn::padded_len(fields) <= room)?;
        self.told = self.counts;
        Some(AccEcn::new(self.counts, ect1_first, fields))
    }
}

/// Bytes that so many SACK blocks take, padded to words.
fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

/// The SACK blocks that fit beside so many bytes of other options.
pub(super) fn sack_room(others: usize) -> usize {
    MAX_OPTIONS.saturating_sub(others + 4) / 8
}

/// What a sender knows of the bytes that arrived marked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkedBytes {
    /// The other side's counter as last seen, with what was estimated since.
    ce: u32,
    /// Options mean nothing: their counters began at zero.
    ignored: bool,
}

impl MarkedBytes {
    /// The option of the segment that completes the handshake, if it has one.
    pub(super) fn on_handshake(&mut self, option: Option<AccEcn>) {
        self.ignored = option.is_some_and(|first| first.ect0() == Some(0) || first.ect1() == Some(0));
    }

    /// Whether this option says nothing new of marks.
    pub(super) fn knows(&self, option: &AccEcn) -> bool {
        !self.ignored && option.ce().is_none_or(|ce| ce == self.ce & 0xff_ffff)
    }

    /// The bytes that were marked since the last time, by this option; none if it means nothing.
    pub(super) fn take(&mut self, option: &AccEcn) -> Option<u32> {
        if self.ignored {
            return None;
        }
        // A counter that seems to go back is behind an estimate, or comes late. Of 24 bits, the upper half is below.
        let grown = option.ce().map_or(0, |ce| (ce.wrapping_sub(self.ce) << 8) as i32 >> 8);
        self.ce = self.ce.wrapping_add_signed(grown);
        Some(grown.max(0) as u32)
    }

    /// Without an option it was found that so many bytes were marked.
    pub(super) fn estimate(&mut self, bytes: u32) {
        self.ce = self.ce.wrapping_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(option: AccEcn) -> (Option<u32>, Option<u32>, Option<u32>) {
        (option.ect0(), option.ce(), option.ect1())
    }

    #[test]
    fn an_option_has_every_counter_that_has_grown_in_the_order_that_is_shorter() {
        let mut counters = ByteCounters::new();
        assert_eq!(counters.option(12, 0), None, "nothing has arrived");
        counters.count(Ecn::NotEct, 500, false);
        assert!(!counters.is_due());
        counters.count(Ecn::Ect0, 1000, false);
        assert_eq!(counters.option(12, 0).map(fields), Some((Some(1001), None, None)));
        assert_eq!(counters.option(12, 0), None, "said once");
        counters.count(Ecn::Ce, 1000, false);
        assert_eq!(counters.option(12, 0).map(fields), Some((Some(1001), Some(1000), None)));
        counters.count(Ecn::Ect0, 1000, false);
        assert_eq!(counters.option(12, 0).map(fields), Some((Some(2001), Some(1000), None)));
        counters.count(Ecn::Ect1, 7, false);
        assert_eq!(counters.option(12, 0).map(fields), Some((Some(2001), Some(1000), Some(8))));
        // L4S: ECT(1) comes first.
        let mut counters = ByteCounters::new();
        counters.count(Ecn::Ect1, 1000, false);
        let option = counters.option(12, 0).unwrap();
        assert_eq!((option.bytes().0[0], fields(option)), (174, (None, None, Some(1001))));
        counters.count(Ecn::Ce, 10, false);
        assert_eq!(counters.option(12, 0).map(fields), Some((None, Some(10), Some(1001))));
        assert_eq!(fields(ByteCounters::new().all()), (Some(1), Some(0), Some(1)));
    }

    #[test]
    fn two_sack_blocks_have_precedence_and_what_has_not_grown_since_goes_first() {
        let mut counters = ByteCounters::new();
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            counters.count(ecn, 100, false);
        }
        let len = |option: Option<AccEcn>| option.map(|option| option.len());
        // 12 for timestamps and 20 for two blocks leave eight: too little for three fields, which all have grown.
        assert_eq!(len(counters.clone().option(12, 1)), Some(12));
        assert_eq!(len(counters.clone().option(12, 3)), None);
        assert_eq!(len(counters.clone().option(0, 4)), Some(12));
        assert_eq!((sack_room(12), sack_room(0), sack_room(24), sack_room(20)), (3, 4, 1, 2));
        assert!(counters.option(0, 0).is_some());
        // Since then only the first two have.
        counters.count(Ecn::Ce, 100, false);
        assert_eq!(counters.clone().option(12, 2).map(fields), Some((Some(101), Some(200), None)));
        assert_eq!(len(counters.clone().option(12, 1)), Some(12));
    }

    #[test]
    fn acknowledged_data_twice_in_a_row_means_that_the_option_is_lost() {
        let mut counters = ByteCounters::new();
        for (acknowledged, blocked) in [(true, false), (false, false), (true, false), (true, true)] {
            counters.count(Ecn::Ect0, 100, acknowledged);
            assert_eq!(counters.is_blocked(), blocked);
        }
    }

    #[test]
    fn a_sender_takes_what_the_counter_grew_by_over_its_end_and_after_an_estimate() {
        let option = |ce: u32| AccEcn::new([9, ce, 1], false, 2);
        let mut marked = MarkedBytes::default();
        assert!(marked.knows(&option(0)) && !marked.knows(&option(5)));
        assert_eq!(marked.take(&option(3000)), Some(3000));
        assert!(marked.knows(&option(3000)) && marked.knows(&AccEcn::new([9, 0, 1], false, 1)));
        assert_eq!(marked.take(&AccEcn::new([9, 0, 1], false, 1)), Some(0), "no field, nothing new");
        // An estimate of 4000 was 1000 too much.
        marked.estimate(4000);
        assert_eq!(marked.take(&option(6000)), Some(0));
        assert_eq!(marked.take(&option(7000)), Some(1000));
        assert_eq!(marked.take(&option(0xff_ff00)), Some(0), "half of the range back is below");
        let mut marked = MarkedBytes::default();
        assert_eq!(marked.take(&option(0x7f_0000)), Some(0x7f_0000));
        assert_eq!(marked.take(&option(0xff_0000)), Some(0), "2^23 are too many to tell");
        let mut marked = MarkedBytes { ce: 0x3ff_fff0, ignored: false };
        assert_eq!(marked.take(&option(0x10)), Some(0x20), "over the end");
    }

    #[test]
    fn counters_that_began_at_zero_mean_nothing() {
        let mut marked = MarkedBytes::default();
        marked.on_handshake(None);
        assert_eq!(marked.take(&AccEcn::new([1, 5, 1], false, 3)), Some(5));
        marked.on_handshake(Some(AccEcn::new([1, 0, 0], false, 3)));
        assert_eq!(marked.take(&AccEcn::new([1, 9, 1], false, 3)), None);
        marked.on_handshake(Some(AccEcn::new([1, 0, 1], false, 3)));
        assert_eq!(marked.take(&AccEcn::new([1, 9, 1], false, 3)), Some(4));
    }
}
