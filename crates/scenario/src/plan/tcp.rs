//! The TCP configuration of a flow's two ends.

use warpline_core::{Bytes, Streams, TimeDelta};
use warpline_transport::tcp::{InitialWindow, LossRecovery, RtoVariance, TcpConfig};

use super::Fault;
use crate::expand::FlowSpec;
use crate::{Recovery, Size, TcpOptions, Time, Transport};

/// The TCP configuration of a flow's two ends.
pub fn endpoints(flow: &FlowSpec, streams: &Streams) -> Result<(TcpConfig, TcpConfig), Fault> {
    let end = |options: &TcpOptions| {
        let config = TcpConfig { heartbeat: heartbeat(options, &flow.name, streams), ..tcp_config(options) };
        if flow.transport == Transport::Tcp {
            config.validate().map_err(|error| Fault::new(&["tcp", error.key], error))?;
        }
        Ok(config)
    };
    Ok((end(&flow.tcp_from)?, end(&flow.tcp_to)?))
}

/// The phase of the heartbeat that drives a flow's time-outs, if it has one.
fn heartbeat(options: &TcpOptions, flow: &str, streams: &Streams) -> Option<TimeDelta> {
    let tick = options.tick.filter(|_| options.heartbeat == Some(true))?.0;
    Some(TimeDelta::from_nanos(streams.stream(&format!("flow.{flow}.heartbeat")).below(tick.as_nanos())))
}

/// The configuration of a TCP endpoint, except for the heartbeat, whose phase is random ([`heartbeat`]).
pub(super) fn tcp_config(options: &TcpOptions) -> TcpConfig {
    let default = TcpConfig::default();
    let time = |time: Option<Time>, default: TimeDelta| time.map_or(default, |time| time.0);
    let bytes = |size: Option<Size>| {
        size.map(|size| {
            let Bytes(bytes) = size.0;
            bytes
        })
    };
    let mss = bytes(options.mss).unwrap_or(u64::from(default.mss));
    let timestamps = options.timestamps.unwrap_or(default.timestamps);
    let payload = mss.saturating_sub(if timestamps { 12 } else { 0 });
    let delayed_ack = time(options.delayed_ack, default.delayed_ack.unwrap_or_default());
    TcpConfig {
        mss: mss.min(u64::from(u32::MAX)) as u32,
        initial_window: options
            .initial_window
            .map_or(default.initial_window, |window| InitialWindow::Bytes(window.bytes(payload))),
        initial_ssthresh: options.initial_ssthresh.map(|window| window.bytes(payload)),
        recovery: match options.recovery {
            Some(Recovery::Tahoe) => LossRecovery::Tahoe,
            Some(Recovery::Reno) => LossRecovery::Reno,
            Some(Recovery::Newreno) => LossRecovery::NewReno,
            Some(Recovery::Sack) | None => LossRecovery::Sack,
        },
        sack: options.sack.unwrap_or(default.sack),
        dsack: options.dsack.unwrap_or(default.dsack),
        timestamps,
        window_scaling: options.window_scaling.unwrap_or(default.window_scaling),
        ecn: options.ecn.unwrap_or(default.ecn),
        rack: options.rack.unwrap_or(default.rack),
        tlp: options.tlp.unwrap_or(default.tlp),
        prr: options.prr.unwrap_or(default.prr),
        limited_transmit: options.limited_transmit.unwrap_or(default.limited_transmit),
        undo: options.undo.unwrap_or(default.undo),
        nagle: options.nagle.unwrap_or(default.nagle),
        pacing: options.pacing.unwrap_or(default.pacing),
        delayed_ack: (!delayed_ack.is_zero()).then_some(delayed_ack),
        delayed_ack_segments: options.delayed_ack_segments.unwrap_or(default.delayed_ack_segments),
        min_rto: time(options.min_rto, default.min_rto),
        max_rto: time(options.max_rto, default.max_rto),
        initial_rto: time(options.initial_rto, default.initial_rto),
        rto_granularity: time(options.tick, default.rto_granularity),
        rto_variance: match options.rto_variance {
            Some(crate::RtoVariance::Rfc6298) => RtoVariance::Rfc6298,
            Some(crate::RtoVariance::Linux) => RtoVariance::Linux,
            None => default.rto_variance,
        },
        cwnd_validation: options.cwnd_validation.unwrap_or(default.cwnd_validation),
        quick_acks: options.quick_acks.unwrap_or(default.quick_acks),
        syn_retries: options.syn_retries.unwrap_or(default.syn_retries),
        data_retries: options.data_retries.unwrap_or(default.data_retries),
        pacing_gain: options.pacing_gain.unwrap_or(default.pacing_gain),
        pacing_gain_slow_start: options.pacing_gain_slow_start.unwrap_or(default.pacing_gain_slow_start),
        receive_buffer: bytes(options.receive_buffer).unwrap_or(default.receive_buffer),
        send_buffer: bytes(options.send_buffer),
        idle_restart: options.idle_restart.unwrap_or(default.idle_restart),
        dupack_threshold: options.dupack_threshold.unwrap_or(default.dupack_threshold),
        max_window_clamp: options.max_window.map(|window| window.bytes(payload)),
        max_rate: options.max_rate.map(|rate| rate.0),
        small_window_burst: options.small_window_burst.unwrap_or(default.small_window_burst),
        heartbeat: default.heartbeat,
        // Scenarios have no key for these yet. They are named so that a new option cannot be forgotten here.
        time_wait: default.time_wait,
        fin_timeout: default.fin_timeout,
    }
}
