//! A simulated host: the built-in model of TCP and UDP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Addresses, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::tcp::TcpOptions;

/// The keys of a host with `endpoint = "model"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// TCP options of connections that end here. (A guest's kernel is set up with `cc` and `sysctl`, a live host's sockets by its
    /// programs.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpOptions>,
    /// Its addresses, as programs, machines outside and captures see them.
    #[serde(flatten)]
    pub own: Addresses,
}

impl Kind for Model {
    const ABOUT: About = About {
        name: "model",
        what: "The built-in model of TCP and UDP.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Model,
        protocol: Protocol::Tcp,
        needs: "nothing",
    };

    fn addresses(&self) -> Option<&Addresses> {
        Some(&self.own)
    }

    fn tcp(&self) -> Option<&TcpOptions> {
        self.tcp.as_ref()
    }
}
