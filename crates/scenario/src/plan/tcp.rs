//! The TCP configuration of a flow's two ends.

use warpline_core::{Streams, TimeDelta};
use warpline_transport::tcp::TcpConfig;

use super::Fault;
use crate::Transport;
use crate::expand::FlowSpec;

/// The TCP configuration of a flow's two ends.
pub fn endpoints(flow: &FlowSpec, streams: &Streams) -> Result<(TcpConfig, TcpConfig), Fault> {
    if flow.transport == Transport::Tcp {
        let validate = |options: &TcpConfig| {
            options.validate().map_err(|fault| Fault::new(&["tcp", fault.parameter], fault))
        };
        validate(&flow.tcp_from)?;
        if flow.tcp_to != flow.tcp_from {
            validate(&flow.tcp_to)?;
        }
    }
    let end = |options: &TcpConfig| {
        let mut config = options.clone();
        if config.heartbeat {
            let mut stream = streams.stream(&format!("flow.{}.heartbeat", flow.name));
            config.heartbeat_phase = TimeDelta::from_nanos(stream.below(config.tick.as_nanos()));
        }
        config
    };
    Ok((end(&flow.tcp_from), end(&flow.tcp_to)))
}
