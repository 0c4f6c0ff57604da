//! The measuring tool of a flow with `app = "cap"` or `"treno"`.

use warpline_capacity::{CapOptions, HEADERS, MAX_DURATION, TrenoOptions};
use warpline_core::TimeDelta;
use warpline_transport::cc::Algorithm;
use warpline_transport::tcp::TcpConfig;

use super::Fault;
use super::tcp::tcp_config;
use crate::expand::FlowSpec;
use crate::{App, Application, Cc, TcpOptions, Time, Window};

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
    Ok(match &flow.application {
        Application::Cap(_) => {
            let cc = flow.cc.clone().unwrap_or_default();
            let algorithm = match &cc {
                Cc::BuiltIn(algorithm) => *algorithm,
                Cc::Custom { name } => {
                    let error =
                        format!("it can only use a built-in congestion control, and `{name}` is not one");
                    return Err(fail(App::Cap, error));
                }
            };
            let mut options = cap_options(&tcp_config(&flow.tcp_from), algorithm);
            // Cap draws the phase itself, at random.
            options.heartbeat = flow.tcp_from.heartbeat == Some(true);
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
        segment: config.mss.saturating_add(HEADERS),
        window: config.receive_buffer,
        initial_window: (config.cc_config().initial_window / config.payload()).min(1000) as u32,
        timestamps: config.timestamps,
        ecn: config.ecn,
        modern: config.rack,
        pacing: config.pacing,
        initial_rto: config.initial_rto,
        min_rto: config.min_rto,
        max_rto: config.max_rto,
        granularity: config.rto_granularity,
        delayed_ack: config.delayed_ack,
        quick_acks: config.quick_acks,
        max_rate: config.max_rate,
        ..default
    }
}

/// The options of `treno`: its defaults, unless the flow sets them.
fn treno_options(tcp: &TcpOptions) -> TrenoOptions {
    let default = TrenoOptions::default();
    let time = |time: Option<Time>, default: TimeDelta| time.map_or(default, |time| time.0);
    let mss = tcp.mss.map_or(u64::from(default.mtu - HEADERS), |size| size.0.0);
    let segments = |window: Window| window.bytes(mss) / mss.max(1);
    TrenoOptions {
        duration: MAX_DURATION,
        patience: MAX_DURATION,
        mtu: mss.saturating_add(u64::from(HEADERS)).min(u64::from(u32::MAX)) as u32,
        max_window: tcp.receive_buffer.map_or(default.max_window, |size| size.0.0),
        initial_window: tcp.initial_window.map_or(default.initial_window, |w| segments(w).min(1000) as u32),
        dupacks: tcp.dupack_threshold.unwrap_or(default.dupacks),
        delayed_ack: tcp.delayed_ack.map(|time| time.0).filter(|time| !time.is_zero()),
        initial_rto: time(tcp.initial_rto, default.initial_rto),
        min_rto: time(tcp.min_rto, default.min_rto),
        max_rto: time(tcp.max_rto, default.max_rto),
        ..default
    }
}
