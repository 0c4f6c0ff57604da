//! The measuring tool of a flow with `app = "cap"` or `"treno"`.

use warpline_capacity::{CapOptions, HEADERS, MAX_DURATION, TrenoOptions};
use warpline_core::{Bytes, TimeDelta};
use warpline_transport::cc::Algorithm;
use warpline_transport::tcp::{TcpConfig, Window};

use super::Fault;
use crate::expand::FlowSpec;
use crate::{App, Application, Cc, TcpOptions};

/// A measuring tool and its options.
#[derive(Clone, Debug)]
pub enum Tool {
    /// `cap`.
    Cap(Box<CapOptions>),
    /// TReno.
    Treno(Box<TrenoOptions>),
}

/// The measuring tool of a flow, if the flow is a measurement.
pub fn tool(flow: &FlowSpec) -> Result<Option<Tool>, Fault> {
    let fail = |app: App, error: String| Fault::new(&["app"], format!("app = \"{}\": {error}", app.name()));
    Ok(match &*flow.application {
        Application::Cap(_) => {
            let cc = flow.cc.clone().unwrap_or_default();
            let algorithm = match &cc {
                Cc::BuiltIn(algorithm) => *algorithm,
                Cc::Media(_) | Cc::Custom { .. } => {
                    let name = cc.name();
                    let error = format!(
                        "it can only use a built-in congestion control for TCP, and `{name}` is not one"
                    );
                    return Err(fail(App::Cap, error));
                }
            };
            let options = cap_options(&flow.tcp_from, algorithm);
            options.validate().map_err(|error| fail(App::Cap, error.to_string()))?;
            Some(Tool::Cap(Box::new(options)))
        }
        Application::Treno(treno) => {
            let options = treno_options(&treno.tcp);
            options.validate().map_err(|error| fail(App::Treno, error.to_string()))?;
            Some(Tool::Treno(Box::new(options)))
        }
        _ => None,
    })
}

/// The options of `cap` that emulate a flow's TCP until the flow or the run ends.
fn cap_options(config: &TcpConfig, cc: Algorithm) -> CapOptions {
    let default = CapOptions::default();
    CapOptions {
        duration: MAX_DURATION,
        cc,
        recovery: config.recovery,
        segment: packet(config.mss),
        window: config.receive_buffer.0,
        initial_window: (config.cc_config().initial_window / config.payload()).min(1000) as u32,
        timestamps: config.timestamps,
        ecn: config.ecn,
        modern: config.rack,
        pacing: config.pacing,
        initial_rto: config.initial_rto,
        min_rto: config.min_rto,
        max_rto: config.max_rto,
        granularity: config.tick,
        // Cap draws the phase itself, at random.
        heartbeat: config.heartbeat,
        delayed_ack: delay(config.delayed_ack),
        quick_acks: config.quick_acks,
        max_rate: config.max_rate,
        ..default
    }
}

/// The options of `treno`: its defaults, unless the flow sets them.
fn treno_options(tcp: &TcpOptions) -> TrenoOptions {
    let default = TrenoOptions::default();
    let mut config = TcpConfig {
        mss: Bytes(u64::from(default.mtu - HEADERS)),
        receive_buffer: Bytes(default.max_window),
        initial_window: Window::Segments(f64::from(default.initial_window)),
        dupack_threshold: default.dupacks,
        delayed_ack: default.delayed_ack.unwrap_or_default(),
        initial_rto: default.initial_rto,
        min_rto: default.min_rto,
        max_rto: default.max_rto,
        ..TcpConfig::default()
    };
    tcp.put_into(&mut config);
    let segment = config.mss.0.max(1);
    TrenoOptions {
        duration: MAX_DURATION,
        patience: MAX_DURATION,
        mtu: packet(config.mss),
        max_window: config.receive_buffer.0,
        initial_window: (config.initial_window.bytes(segment) / segment).min(1000) as u32,
        dupacks: config.dupack_threshold,
        delayed_ack: delay(config.delayed_ack),
        initial_rto: config.initial_rto,
        min_rto: config.min_rto,
        max_rto: config.max_rto,
        ..default
    }
}

/// Bytes of a full packet.
fn packet(mss: Bytes) -> u32 {
    mss.0.saturating_add(u64::from(HEADERS)).min(u64::from(u32::MAX)) as u32
}

/// As the tools have it: none for zero.
fn delay(delayed_ack: TimeDelta) -> Option<TimeDelta> {
    Some(delayed_ack).filter(|delay| !delay.is_zero())
}
