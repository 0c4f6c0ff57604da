//! Congestion control: the interface, the built-in algorithms, and the choice between them.
//!
//! An algorithm decides how large the window is. The connection decides when something counts as lost, and how the
//! window is approached during recovery (PRR, RFC 6937), unless the algorithm [does](CongestionControl::governs_recovery).
//! The terms are those of Linux and quinn. Windows are in bytes and may be below one segment: the connection then paces
//! single segments at `cwnd / srtt`.

#[macro_use]
mod list;

// A new algorithm is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
algorithms! {
    reno::Reno,
    cubic::Cubic,
    vegas::Vegas,
    bic::Bic,
    htcp::Htcp boxed,
    westwood::Westwood,
    highspeed::HighSpeed,
    scalable::Scalable,
    illinois::Illinois boxed,
    veno::Veno,
    yeah::Yeah boxed,
    hybla::Hybla,
    cdg::Cdg boxed,
    nv::Nv boxed,
    compound::Compound boxed,
    ledbat::Ledbat boxed,
    ledbat_plus_plus::LedbatPlusPlus boxed,
    lp::Lp boxed,
    nice::Nice boxed,
    bbr::Bbr boxed,
    bbr3::Bbr3 boxed,
    dctcp::Dctcp,
    prague::Prague boxed,
    fixed::Fixed,
    lia::Lia,
    olia::Olia,
}

mod careful_resume;
mod controller;
mod delay;
mod hystart;
mod hystart_linux;
mod round;
mod rtt_range;
mod search;
mod slow_start;
mod train;
mod window;

// Long simulations: too long for Miri.
#[cfg(test)]
#[cfg(not(miri))]
mod behaviour;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testbed;

use warpline_core::parameter::Choice;
use warpline_core::record::LossTrigger;
pub use warpline_core::record::Phase;
use warpline_core::{Rate, TimeDelta, Timestamp};

pub use controller::BuiltIn;
pub use slow_start::{AckCounting, Hystart, SlowStartParams};
pub use window::MAX_WINDOW;

/// What an algorithm learns from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it was processed.
    pub now: Timestamp,
    /// Bytes newly acknowledged, cumulatively or selectively, including those that had been marked lost or sent
    /// again. A retransmission that a D-SACK shows to have been needless counts, too: it was delivered.
    pub acked: u64,
    /// Payload size of a full segment in bytes.
    pub mss: u64,
    /// RTT sample of this acknowledgement (Karn's rule applied, or timestamps), if it gave one.
    pub rtt: Option<TimeDelta>,
    /// Smoothed RTT after this sample; zero before the first.
    pub srtt: TimeDelta,
    /// Smallest RTT of the connection; zero before the first sample.
    pub min_rtt: TimeDelta,
    /// One-way delay from the sender's to the receiver's timestamp, with an unknown constant offset, if timestamps are in use
    /// (what RFC 6817 needs). Every acknowledgement with an `rtt` has it then. One that does not advance has it for the newest segment that it
    /// selectively acknowledges, if that was sent once.
    pub one_way_delay: Option<TimeDelta>,
    /// Delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation), for an algorithm that
    /// [reads](CongestionControl::reads_delivery_rate) it.
    pub delivery_rate: Option<Rate>,
    /// Whether that sample may be below what the path carries because the application, or the algorithm on purpose, had sent
    /// too little. False where there are no samples.
    pub app_limited: bool,
    /// When the newest segment acknowledged here was sent; [`Timestamp::NEVER`] if that is not known.
    pub sent_at: Timestamp,
    /// Bytes delivered over the connection so far.
    pub delivered: u64,
    /// Bytes delivered when the newest segment acknowledged here was sent: a round trip has passed when this reaches the
    /// `delivered` of the last round's end.
    pub prior_delivered: u64,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Next byte to be sent. With `ack`, it lets algorithms count round trips by sequence number.
    pub next_seq: u64,
    /// Cumulative acknowledgement.
    pub ack: u64,
    /// Bytes reported congestion-experienced by this acknowledgement.
    pub ce: u64,
    /// Whether the window, and not the application or the receiver, limited sending (RFC 7661, Linux is_cwnd_limited). The
    /// window must not grow otherwise.
    pub cwnd_limited: bool,
    /// The connection's congestion state. In [`Phase::Cwr`] and [`Phase::Recovery`] the window must not grow, unless the algorithm
    /// [governs](CongestionControl::governs_recovery) recovery. After a time-out ([`Phase::Loss`]), slow start goes on.
    pub phase: Phase,
}

/// What an acknowledgement tells of marks. The fields are those of [`AckSample`].
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes reported congestion-experienced.
    pub ce: u64,
    /// Next byte to be sent.
    pub next_seq: u64,
    /// Cumulative acknowledgement.
    pub ack: u64,
}

impl From<&AckSample> for Marks {
    fn from(ack: &AckSample) -> Self {
        Marks { acked: ack.acked, ce: ack.ce, next_seq: ack.next_seq, ack: ack.ack }
    }
}

/// A reason to reduce.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// When.
    pub now: Timestamp,
    /// What showed the congestion.
    pub trigger: LossTrigger,
    /// Bytes in flight at that moment (RFC 5681's FlightSize).
    pub in_flight: u64,
    /// Payload size of a full segment in bytes.
    pub mss: u64,
    /// Smallest RTT of the connection; zero before the first sample.
    pub min_rtt: TimeDelta,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: TimeDelta,
}

/// A segment that is taken for lost.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// When that was found out.
    pub now: Timestamp,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last sent.
    pub sent_at: Timestamp,
    /// Bytes delivered over the connection when it was last sent.
    pub delivered: u64,
    /// Whether too little was being sent then (see [`AckSample::app_limited`]).
    pub app_limited: bool,
    /// What showed it.
    pub trigger: LossTrigger,
}

/// What an algorithm needs of explicit congestion notification (ECN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EcnNeed {
    /// Nothing: there is ECN if the options of TCP say so.
    #[default]
    Any,
    /// ECN, and a receiver that echoes every mark as it came (RFC 8257). All packets are ECN-capable then, and a loss counts even right after
    /// marks.
    Each,
    /// Accurate ECN (RFC 9768), and packets that say that they are of L4S by ECT(1) (RFC 9331). Else as for `Each`; and a reduction for marks is in
    /// force at once. Where the other side knows no AccECN, marks come as RFC 3168 has it, and packets are ECT(0).
    L4s,
}

/// A congestion-control algorithm: one connection's window.
pub trait CongestionControl: std::fmt::Debug + Send {
    /// `bytes` were sent (retransmissions included); `in_flight` counts them.
    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }
    /// An acknowledgement of new data (cumulative or selective) was processed.
    fn on_ack(&mut self, ack: &AckSample);
    /// [`on_ack`](Self::on_ack), and [`cwnd`](Self::cwnd) after it: what every acknowledgement asks for, in one call.
    #[inline]
    fn cwnd_after(&mut self, ack: &AckSample) -> u64 {
        self.on_ack(ack);
        self.cwnd()
    }
    /// Whether it reads [`AckSample::delivery_rate`]. If not, the connection gives none. Built-in algorithms say so with
    /// [`BuiltIn::READS_DELIVERY_RATE`].
    fn reads_delivery_rate(&self) -> bool {
        true
    }
    /// The handshake is complete. `srtt` and `min_rtt` are its round-trip time, or zero if that is not known.
    fn on_established(&mut self, now: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        let _ = (now, srtt, min_rtt);
    }
    /// Sending begins, or begins anew, with nothing in flight (Linux CA_EVENT_TX_START). `app_limited`: the application had nothing to
    /// send before, as far as an algorithm [reads delivery rates](Self::reads_delivery_rate); for others it is false.
    fn on_restart(&mut self, now: Timestamp, app_limited: bool) {
        let _ = (now, app_limited);
    }
    /// An acknowledgement of new data reports marks. Of what it brings, this comes first: before [`on_congestion_event`](Self::on_congestion_event),
    /// and before [`on_ack`](Self::on_ack) for the same acknowledgement, which always follows (Linux in_ack_event).
    fn on_marks(&mut self, marks: &Marks) {
        let _ = marks;
    }
    /// A segment is taken for lost. Of what one moment brings, this comes after [`on_rto`](Self::on_rto), and before
    /// [`on_congestion_event`](Self::on_congestion_event) and [`on_ack`](Self::on_ack).
    fn on_lost(&mut self, lost: &LostSegment) {
        let _ = lost;
    }
    /// Whether it now sends less than the path carries on purpose, so that delivery rates of what is sent now count as
    /// [limited](AckSample::app_limited). Asked after every acknowledgement.
    fn holds_back(&self) -> bool {
        false
    }
    /// Whether it sets the window in recovery, too (Linux cong_control). Otherwise the connection approaches the algorithm's window there
    /// (PRR), and the window must not grow.
    fn governs_recovery(&self) -> bool {
        false
    }
    /// Losses or ECN echoes begin a new congestion episode: reduce `cwnd` and `ssthresh`. Called once per episode.
    /// Keep the state before for [`undo`](Self::undo).
    fn on_congestion_event(&mut self, event: &CongestionEvent);
    /// The retransmission timer expired: `ssthresh` reduces, `cwnd` becomes one segment (RFC 5681 section 3.1). Called for
    /// the first time-out of an episode only; back-off repeats are not new congestion.
    fn on_rto(&mut self, event: &CongestionEvent);
    /// Recovery or CWR ended in good order (everything outstanding at its start is acknowledged). From here on the
    /// connection uses `cwnd` again.
    fn on_recovery_exit(&mut self, now: Timestamp) {
        let _ = now;
    }
    /// The last reduction proved spurious: restore what was before it (Linux tcp_undo_cwnd_reduction).
    fn undo(&mut self, now: Timestamp);
    /// Sets window and threshold, in bytes, because something outside knows better (as [`CcConfig::saved`] does). Returns whether it goes by a
    /// window; if not, nothing is changed.
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        let _ = (cwnd, ssthresh);
        false
    }
    /// Sending resumes after `idle` without anything in flight (RFC 2861, RFC 5681 section 4.1): algorithms may restart.
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        let _ = (now, idle, rto);
    }
    /// Congestion window in bytes; may be below one segment.
    fn cwnd(&self) -> u64;
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    fn ssthresh(&self) -> u64;
    /// The rate to pace at, if the algorithm sets one. One that does must give a rate from the beginning.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    /// Whether [`pacing_rate`](Self::pacing_rate) counts payload, as delivery rates do, and not bytes on the wire.
    fn paces_payload(&self) -> bool {
        false
    }
    /// Bytes that may leave at one moment where an algorithm gives a [`pacing_rate`](Self::pacing_rate), as the large segments of a host with
    /// segmentation offload do (draft-ietf-ccwg-bbr, C.send_quantum). One segment may in any case.
    fn send_quantum(&self) -> u64 {
        0
    }
    /// Segments to send together while the window is below two segments. After such a burst of n segments, the
    /// connection waits for `n * srtt * mss / cwnd`. TCP Nice sends pairs, so that a receiver that delays its
    /// acknowledgements answers at once, and its delay is not taken for a queue.
    fn min_burst(&self) -> u32 {
        1
    }
    /// What it needs of explicit congestion notification. The connection asks once for what it negotiates.
    fn ecn_need(&self) -> EcnNeed {
        EcnNeed::Any
    }
    /// The handshake has settled ECN. `accurate`: marked packets are counted (RFC 9768).
    fn on_ecn_agreed(&mut self, accurate: bool) {
        let _ = accurate;
    }
    /// A full segment carries another number of bytes from here on: the handshake has settled it, or the path takes less. Windows that count in
    /// segments stay as many segments, as they do in Linux. [`AckSample::mss`] and [`CongestionEvent::mss`] have the new size.
    fn on_mss(&mut self, change: &MssChange) {
        let _ = change;
    }
    /// Something has changed on this subflow of a multipath connection, or on another. `subflows` are those that are open and know their round-trip
    /// time, and `own` is the place of this one. Never called for a connection by itself. Coupled algorithms take what they need of it.
    fn on_subflows(&mut self, subflows: &[Subflow], own: usize) {
        let _ = (subflows, own);
    }
    /// Name as scenarios write it.
    fn name(&self) -> &'static str;
}

/// A subflow of a multipath connection, as the congestion control of another sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time, above zero.
    pub srtt: TimeDelta,
    /// Bytes acknowledged between two losses: between the last two, or since the last one if that is more.
    pub loss_interval: u64,
}

/// A change of the payload of a full segment.
#[derive(Clone, Copy, Debug)]
pub struct MssChange {
    /// What the algorithm was built from, or what the last change said. The seed is of no meaning here.
    pub before: CcConfig,
    /// What it would be built from now.
    pub after: CcConfig,
}

impl MssChange {
    /// As many segments as `bytes` were before.
    pub fn scaled(&self, bytes: u64) -> u64 {
        let scaled = u128::from(bytes) * u128::from(self.after.mss) / u128::from(self.before.mss.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
    /// The same of a fraction of bytes.
    pub fn scaled_part(&self, bytes: f64) -> f64 {
        bytes / self.before.mss.max(1) as f64 * self.after.mss as f64
    }
    /// The same of a window: one that is still the initial one is the initial one of now, which may be given in bytes.
    pub fn window(&self, cwnd: u64) -> u64 {
        if cwnd == self.before.initial_window { self.after.initial_window } else { self.scaled(cwnd).max(1) }
    }
}

/// What every algorithm is built from.
#[derive(Clone, Copy, Debug)]
pub struct CcConfig {
    /// Payload size of a full segment in bytes.
    pub mss: u64,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// Initial slow-start threshold in bytes; `u64::MAX` for none.
    pub initial_ssthresh: u64,
    /// What an algorithm that needs random numbers makes them of. Flows should differ in it.
    pub seed: u64,
    /// What an earlier connection on the same path has found (Careful Resume, RFC 9959). [`Algorithm::build`] makes use of it.
    pub saved: Option<SavedPath>,
}

/// What an earlier connection has found of a path (RFC 9959 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPath {
    /// Bytes that it had delivered in a round trip.
    pub cwnd: u64,
    /// Its smallest round-trip time.
    pub rtt: TimeDelta,
}
