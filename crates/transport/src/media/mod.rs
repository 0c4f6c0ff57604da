//! Media with congestion controls of its own: a video stream whose encoder follows a target rate, its packets, the receiver's reports, and what
//! is shown.
//!
//! A [`Sender`] takes frames from a model of an encoder (`source.rs`), cuts them into packets, paces these, and sends them as far as its
//! congestion control lets it. A [`Receiver`] reports which packets have arrived and when (RFC 8888), puts frames together and says when each is
//! shown (`playout.rs`). Neither does I/O or reads a clock: their owner hands them what arrives and the time.
//!
//! A congestion control for media gives a rate for the encoder ([`MediaControl::target_rate`]), and learns of every packet when it was sent and
//! when it arrived. It is not one of those for TCP ([`crate::cc`]), which give a window and learn from acknowledgements.

mod playout;
mod receiver;
mod report;
mod sender;
mod source;

#[cfg(test)]
#[cfg(not(miri))]
mod behaviour;
#[cfg(test)]
mod testbed;

/// What the list of congestion controls makes: their modules and names, and [`Algorithm`] for their parameters.
macro_rules! controls {
    ($($file:ident::$name:ident),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        /// A congestion control for media and its parameters, as plain data. As text it is a name, and the parameters that differ from its
        /// defaults: `gcc:beta=0.9`.
        #[derive(Clone, Copy, Debug, PartialEq, Choice)]
        #[choice("congestion control for media")]
        #[non_exhaustive]
        pub enum Algorithm {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(<$name as BuiltIn>::Params),
            )+
        }

        impl Algorithm {
            /// The congestion control of a new stream.
            pub fn build(&self, config: &ControlConfig) -> Box<dyn MediaControl> {
                match self { $( Algorithm::$name(params) => Box::new($name::new(params, config)), )+ }
            }
            /// When the receiver reports to it.
            pub fn report_rule(&self) -> ReportRule {
                match self { $( Algorithm::$name(_) => $name::REPORTS, )+ }
            }
        }
    };
}

// A new one is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
controls! {
    gcc::Gcc,
    scream::Scream,
}

use warpline_core::packet::{IPV4_HEADER, UDP_HEADER};
use warpline_core::parameter::{Choice, Parameters};
use warpline_core::{Bytes, Ecn, Rate, TimeDelta, Timestamp};

pub use playout::Watched;
pub use receiver::Receiver;
pub use report::{Arrival, Report, ReportRule};
pub use sender::{Sender, SenderStats};

impl Default for Algorithm {
    /// GCC, which browsers use.
    fn default() -> Self {
        Algorithm::Gcc(GccParams::default())
    }
}

/// Bytes of headers of a media packet: IPv4, UDP, RTP (RFC 3550 section 5.1), and an RTP header extension with a number that counts all packets
/// (draft-holmer-rmcat-transport-wide-cc-extensions: four bytes, and four for the extension's head).
pub const HEADERS: u32 = IPV4_HEADER + UDP_HEADER + 12 + 8;

/// A video stream whose encoder follows the target rate of a congestion control for media (`cc`: gcc or scream).
///
/// Rates are those of IP packets with their headers.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("media")]
pub struct MediaParams {
    /// Frames per second.
    #[parameter(default = 30.0, min = 1.0, max = 1000.0)]
    pub frame_rate: f64,
    /// Lowest rate of the encoder.
    #[parameter(default = Rate::from_bps(150_000), above = Rate::from_bps(0), not_above = "max_bitrate")]
    pub min_bitrate: Rate,
    /// Rate of the encoder at the start.
    #[parameter(default = Rate::from_bps(300_000), above = Rate::from_bps(0), not_below = "min_bitrate", not_above = "max_bitrate")]
    pub start_bitrate: Rate,
    /// Highest rate of the encoder.
    #[parameter(default = Rate::from_bps(1_500_000), above = Rate::from_bps(0))]
    pub max_bitrate: Rate,
    /// Scale of the Laplace distribution by which frame sizes differ from their mean, as a part of it.
    #[parameter(default = 0.15, min = 0.0, max = 1.0)]
    pub size_noise: f64,
    /// Time from one key frame to the next; 0s: only the first frame, and those that the receiver asks for.
    #[parameter(default = TimeDelta::ZERO)]
    pub key_frame_interval: TimeDelta,
    /// Size of a key frame, as a multiple of a mean frame; the seven frames after it are smaller, so that the rate is kept.
    #[parameter(default = 3.2, min = 1.0, max = 6.6)]
    pub key_frame_size: f64,
    /// Largest packet, from the IP header on.
    #[parameter(default = Bytes(1200), min = Bytes(100), max = Bytes(9000))]
    pub packet_size: Bytes,
    /// Whether packets that the reports show to be lost are sent once more.
    #[parameter(default = true)]
    pub retransmit: bool,
    /// Time in which the sender's queue may keep a packet; while one has waited for longer, no frame is made.
    #[parameter(default = TimeDelta::from_millis(300), above = TimeDelta::ZERO)]
    pub send_queue: TimeDelta,
    /// Shortest time from a frame's capture to its being shown: the delay that hides jitter.
    #[parameter(default = TimeDelta::ZERO)]
    pub playout_delay: TimeDelta,
    /// Time that the receiver waits for what is missing of a frame once a later frame has begun to arrive. Then it gives the frame up, and
    /// asks for a key frame.
    #[parameter(default = TimeDelta::from_millis(200))]
    pub patience: TimeDelta,
    /// A frame that is shown later than this after its capture counts as late.
    #[parameter(default = TimeDelta::from_millis(400), above = TimeDelta::ZERO)]
    pub late: TimeDelta,
}

impl MediaParams {
    /// What its congestion control is built from.
    pub fn control_config(&self) -> ControlConfig {
        ControlConfig {
            min_rate: self.min_bitrate,
            start_rate: self.start_bitrate,
            max_rate: self.max_bitrate,
            packet: self.packet_size.0,
            frame_interval: TimeDelta::from_secs_f64(1.0 / self.frame_rate),
        }
    }
}

/// What a congestion control for media is built from.
#[derive(Clone, Copy, Debug)]
pub struct ControlConfig {
    /// Lowest target rate.
    pub min_rate: Rate,
    /// Target rate at the start.
    pub start_rate: Rate,
    /// Highest target rate.
    pub max_rate: Rate,
    /// Bytes of a full packet on the wire.
    pub packet: u64,
    /// Time between two frames.
    pub frame_interval: TimeDelta,
}

/// A built-in congestion control for media.
pub trait BuiltIn: MediaControl + Sized + 'static {
    /// Its parameters.
    type Params: Parameters + Copy;
    /// When the receiver reports to it.
    const REPORTS: ReportRule;
    /// That of a new stream.
    fn new(params: &Self::Params, config: &ControlConfig) -> Self;
}

/// A packet that a report shows to have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Its number.
    pub seq: u64,
    /// When it was sent, on the sender's clock.
    pub sent: Timestamp,
    /// When it arrived, on the receiver's clock.
    pub arrived: Timestamp,
    /// Its size on the wire.
    pub bytes: u64,
    /// Whether it carried the congestion-experienced mark.
    pub ce: bool,
}

/// What a report brings.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// When the report was handled.
    pub now: Timestamp,
    /// Packets that are newly known to have arrived, in the order in which they were sent.
    pub acked: &'a [Acked],
    /// How many packets are newly taken for lost.
    pub lost: u64,
    /// Bytes of all packets from the last that was known to have arrived, not counted, up to the last that is known now.
    pub passed: u64,
    /// Smoothed round-trip time (RFC 6298), without the time that packets waited for their report; zero before the first sample.
    pub srtt: TimeDelta,
    /// Bytes of the packets sent after the last one known to have arrived: before this report, and after it.
    pub prior_in_flight: u64,
    /// The same after it.
    pub in_flight: u64,
}

/// A congestion control for media.
pub trait MediaControl: std::fmt::Debug + Send {
    /// The encoder has made a frame of so many bytes on the wire.
    fn on_frame(&mut self, now: Timestamp, bytes: u64) {
        let _ = (now, bytes);
    }
    /// A packet of so many bytes was sent; `in_flight` counts it.
    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }
    /// A report came.
    fn on_feedback(&mut self, feedback: &Feedback<'_>);
    /// The rate that the encoder is to have.
    fn target_rate(&self) -> Rate;
    /// The rate at which packets leave.
    fn pacing_rate(&self) -> Rate;
    /// Packets may leave while fewer bytes than this are in flight; `u64::MAX` for no limit.
    fn window(&self) -> u64 {
        u64::MAX
    }
    /// The window that is shown in results, in bytes, if it has one.
    fn cwnd(&self) -> Option<u64> {
        None
    }
    /// The ECN field of its packets.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
}

/// What a media packet says of itself in its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaPacket {
    /// Its number; a packet that is sent again has a new one.
    pub seq: u64,
    /// When its frame was captured.
    pub captured: Timestamp,
    /// Number of its frame, from 0.
    pub frame: u32,
    /// Its place among the packets of the frame.
    pub index: u16,
    /// Number of packets of the frame.
    pub count: u16,
    /// Whether the frame is a key frame.
    pub key: bool,
    /// Rate at which the frame was encoded, in kbit/s.
    pub kbps: u32,
    /// Bytes on the wire.
    pub bytes: u32,
    /// Whether it was sent before under another number.
    pub again: bool,
}

impl MediaPacket {
    /// The marks of a key frame and of a packet sent again, above a rate in kbit/s.
    const KEY: u32 = 1 << 31;
    const AGAIN: u32 = 1 << 30;

    /// What is to be carried with a datagram: the frame, the place in it, and the rest.
    pub fn note(&self) -> [u32; 3] {
        let place = u32::from(self.index) << 16 | u32::from(self.count);
        let marks = (u32::from(self.key) * Self::KEY) | (u32::from(self.again) * Self::AGAIN);
        [self.frame, place, self.kbps.min(Self::AGAIN - 1) | marks]
    }

    /// The packet of which `note` was carried.
    pub fn read(seq: u64, captured: Timestamp, bytes: u32, [frame, place, rest]: [u32; 3]) -> MediaPacket {
        MediaPacket {
            seq,
            captured,
            frame,
            index: (place >> 16) as u16,
            count: place as u16,
            key: rest & Self::KEY != 0,
            kbps: rest & (Self::AGAIN - 1),
            bytes,
            again: rest & Self::AGAIN != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_s_note_says_all_of_it() {
        let packet = MediaPacket {
            seq: 7,
            captured: Timestamp::from_millis(3),
            frame: u32::MAX,
            index: 65_534,
            count: 65_535,
            key: true,
            kbps: 1_234_567,
            bytes: 1200,
            again: false,
        };
        for packet in [packet, MediaPacket { key: false, again: true, index: 0, ..packet }] {
            let read = MediaPacket::read(packet.seq, packet.captured, packet.bytes, packet.note());
            assert_eq!(read, packet);
        }
    }
}
