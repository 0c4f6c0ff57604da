//! The counters of an end of a test. They are plain numbers, so that they can cross the network and be used in any report. Times are in
//! nanoseconds, sizes in bytes of payload unless the name says otherwise.

use serde::{Deserialize, Serialize};

use super::bytes::{Reader, Writer};

/// Limit for counters from elsewhere; a report with larger ones is rejected. Sums and products of a few counters below it do not overflow, and
/// no test of a day reaches it.
const COUNTED: u64 = 1 << 60;

/// A struct of counters that is written and read as a sequence of numbers.
macro_rules! counters {
    ($(#[$attribute:meta])* pub struct $name:ident { $( $(#[doc = $doc:literal])+ $field:ident, )+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: u64, )+
        }
        impl $name {
            pub(super) fn write(&self, out: &mut Writer<'_>) {
                $( out.u64(self.$field); )+
            }
            pub(super) fn read(input: &mut Reader<'_>) -> Option<Self> {
                Some($name { $( $field: input.u64().filter(|&count| count < COUNTED)?, )+ })
            }
        }
    };
}

counters! {
    /// The results of the data's sender.
    pub struct SenderResults {
        /// From the first data segment's sending to the end of the measurement.
        elapsed_ns,
        /// Unique bytes that the receiver has acknowledged, cumulatively or selectively: each counts once.
        data_bytes,
        /// Segments with payload sent, retransmissions included.
        sent_segments,
        /// Bytes on the wire sent, from the IP header on.
        sent_wire_bytes,
        /// Segments sent again.
        retransmitted_segments,
        /// Acknowledgements received.
        acks_received,
        /// Bytes on the wire of those, from the IP header on.
        acks_wire_bytes,
        /// Time in slow start.
        slow_start_ns,
        /// Bytes acknowledged in slow start.
        slow_start_bytes,
        /// Time in congestion avoidance: window at or above the threshold, no recovery.
        avoidance_ns,
        /// Bytes acknowledged in congestion avoidance.
        avoidance_bytes,
        /// Time in fast recovery or after an ECN echo.
        recovery_ns,
        /// Bytes acknowledged there.
        recovery_bytes,
        /// Time from a time-out until all that was outstanding then is acknowledged.
        timeout_ns,
        /// Bytes acknowledged there.
        timeout_bytes,
        /// Time in which only the advertised window limited sending.
        window_limited_ns,
        /// Fast recoveries begun.
        recoveries,
        /// Retransmission time-outs, including repeated ones.
        rtos,
        /// Times that a time-out began an episode.
        timeout_episodes,
        /// Reductions because of an ECN echo.
        ecn_reductions,
        /// Segments declared lost.
        lost_segments,
        /// Largest number of segments declared lost in one episode, which is one round trip's worth.
        max_cluster,
        /// Episodes in which losses were found.
        loss_episodes,
        /// Episodes in which one segment was lost.
        episodes_of_1,
        /// Episodes in which two were.
        episodes_of_2,
        /// Episodes in which three were.
        episodes_of_3,
        /// Episodes in which four to seven were.
        episodes_of_4,
        /// Episodes in which eight to fifteen were.
        episodes_of_8,
        /// Episodes in which sixteen or more were.
        episodes_of_16,
        /// Time-outs before which the last event was an acknowledgement that released nothing (RFC 3148 section 3.2.1).
        lost_opportunities,
        /// Segments that the window after a reduction allowed within the episode and that were not sent in it.
        unsent_segments,
        /// Time-outs before which the last event was a transmission that an acknowledgement had released: nothing of the window, or of its
        /// acknowledgements, came back (RFC 3148 section 3.2.2).
        entire_windows,
        /// Fast recoveries from the loss of more than half a window, in which the clock was kept.
        heroic_recoveries,
        /// Fast recoveries that ended in a time-out: the clock was lost during recovery.
        failed_recoveries,
        /// Time-outs that proved unnecessary.
        false_timeouts,
        /// Fast recoveries that proved unnecessary.
        false_recoveries,
        /// Duplicates that the receiver reported (RFC 2883).
        dsacks,
        /// Tail loss probes sent.
        tail_probes,
        /// Largest window in slow start.
        max_cwnd_slow_start,
        /// Largest window in congestion avoidance.
        max_cwnd_avoidance,
        /// Window at the end.
        final_cwnd,
        /// Smallest round-trip time.
        rtt_min_ns,
        /// Sum of round-trip time samples.
        rtt_sum_ns,
        /// Round-trip time samples.
        rtt_count,
        /// Largest round-trip time.
        rtt_max_ns,
        /// Largest retransmission time-out in force.
        rto_max_ns,
        /// Payload of a full segment.
        segment_payload,
        /// Whether selective acknowledgements were in use.
        sack_used,
    }
}

counters! {
    /// The results of the data's receiver.
    pub struct ReceiverResults {
        /// From the first data segment's arrival to the last one's.
        elapsed_ns,
        /// Unique bytes that arrived, in order or not.
        data_bytes,
        /// Segments with payload that arrived.
        segments,
        /// Bytes on the wire of those, from the IP header on.
        wire_bytes,
        /// Bytes that had arrived before.
        duplicate_bytes,
        /// Acknowledgements sent.
        acks_sent,
        /// Bytes on the wire of those, from the IP header on.
        acks_wire_bytes,
        /// Transmissions that never arrived.
        missing,
        /// Transmissions that arrived twice or more: the network made copies.
        copies,
        /// Transmissions that arrived after a later one.
        reordered,
        /// Of those, overtaken by fewer segments than cause a fast retransmit.
        reordered_slightly,
        /// Of those, overtaken by as many or more.
        reordered_retransmit,
        /// Of those, a second or more late.
        reordered_late,
        /// Most segments that overtook one.
        max_extent,
        /// Longest time by which a segment arrived after the first one that overtook it.
        max_lateness_ns,
        /// Segments that arrived marked congestion-experienced.
        ce_marks,
        /// Segments whose delay is known.
        delay_count,
        /// Smallest one-way delay in microseconds plus 2^31: see [`ReceiverResults::delay_min`].
        delay_min_us,
        /// Mean delay above the smallest, in microseconds.
        delay_mean_us,
        /// Median of the delay above the smallest, in microseconds.
        delay_p50_us,
        /// 95th percentile of it.
        delay_p95_us,
        /// 99th percentile of it.
        delay_p99_us,
        /// Largest of it.
        delay_max_us,
    }
}

/// A delay of zero as it crosses the network: counters are not negative, and a delay by two clocks can be.
pub(super) const DELAY_ZERO: i64 = 1 << 31;

impl ReceiverResults {
    /// Smallest one-way delay, in microseconds: the time of arrival by the receiver's clock minus the time of sending by the sender's. It includes the
    /// difference between the clocks, so it can be negative. `None` if no segment's delay is known.
    pub fn delay_min(&self) -> Option<i64> {
        (self.delay_count > 0).then(|| self.delay_min_us as i64 - DELAY_ZERO)
    }
}

counters! {
    /// What happened within a host: losses here did not happen on the path.
    pub struct HostResults {
        /// How long the end ran.
        elapsed_ns,
        /// Time in which its thread ran, or was ready to run and waited for a processor.
        busy_ns,
        /// Datagrams that the system refused to send for lack of buffers.
        send_drops,
        /// Times that sending had to wait for room in the socket's buffer.
        send_waits,
        /// Time spent on these waits.
        send_wait_ns,
        /// Most bytes that waited in the socket's send buffer.
        send_queue_max,
        /// Receptions dropped because the socket's receive buffer was full; with receive offload each is a batch of datagrams.
        receive_drops,
        /// Most bytes that waited in the socket's receive buffer, as far as observed.
        receive_queue_max,
        /// Size of the receive buffer.
        receive_buffer,
        /// Size of the send buffer.
        send_buffer,
        /// Largest segmentation batch handed over, in datagrams; 1 without segmentation offload.
        batch_max,
        /// Datagrams whose wait for this end's thread is known.
        served,
        /// Sum of those waits, from the kernel's timestamp to the thread's reading of the clock.
        serve_wait_ns,
        /// Longest of them.
        serve_wait_max_ns,
    }
}

/// One end's report to the other when a test has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its results as sender, if it sent data.
    pub sender: Option<SenderResults>,
    /// Its results as receiver, if it received data.
    pub receiver: Option<ReceiverResults>,
    /// What happened within the host.
    pub host: HostResults,
}

impl Report {
    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.u8(u8::from(self.sender.is_some()) | u8::from(self.receiver.is_some()) << 1);
        if let Some(sender) = &self.sender {
            sender.write(out);
        }
        if let Some(receiver) = &self.receiver {
            receiver.write(out);
        }
        self.host.write(out);
    }
    pub(super) fn read(input: &mut Reader<'_>) -> Option<Self> {
        let parts = input.u8()?;
        Some(Report {
            sender: if parts & 1 == 1 { Some(SenderResults::read(input)?) } else { None },
            receiver: if parts & 2 == 2 { Some(ReceiverResults::read(input)?) } else { None },
            host: HostResults::read(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_nobody_can_have_counted_are_not_believed() {
        let written = |data_bytes| {
            let mut bytes = Vec::new();
            let receiver = ReceiverResults { data_bytes, ..ReceiverResults::default() };
            Report { receiver: Some(receiver), ..Report::default() }.write(&mut Writer::new(&mut bytes));
            bytes
        };
        assert!(Report::read(&mut Reader::new(&written(COUNTED - 1))).is_some());
        assert!(Report::read(&mut Reader::new(&written(COUNTED))).is_none());
        assert!(Report::read(&mut Reader::new(&written(u64::MAX))).is_none());
    }
}
