//! The TCP configuration of a flow's two ends.

use std::sync::Arc;

use warpline_core::{Streams, TimeDelta};
use warpline_transport::tcp::TcpConfig;

use super::Fault;
use crate::Transport;
use crate::expand::FlowSpec;

/// The TCP configuration of a flow's two ends.
pub fn endpoints(flow: &FlowSpec, streams: &Streams) -> Result<(Arc<TcpConfig>, Arc<TcpConfig>), Fault> {
    if flow.transport == Transport::Tcp {
        let validate = |options: &TcpConfig| {
            options.validate().map_err(|fault| Fault::new(&["tcp", fault.parameter], fault))
        };
        validate(&flow.tcp_from)?;
        if flow.tcp_to != flow.tcp_from {
            validate(&flow.tcp_to)?;
        }
    }
    let end = |options: &Arc<TcpConfig>| {
        if !options.heartbeat {
            return Arc::clone(options);
        }
        let mut stream = streams.stream(&format!("flow.{}.heartbeat", flow.name));
        let heartbeat_phase = TimeDelta::from_nanos(stream.below(options.tick.as_nanos()));
        Arc::new(TcpConfig { heartbeat_phase, ..TcpConfig::clone(options) })
    };
    Ok((end(&flow.tcp_from), end(&flow.tcp_to)))
}
