//! Transfers that arrive by themselves: an open loop.

use warpline_core::parameter::{Parameters, Words};
use warpline_core::{Bytes, Empirical, Stream};

use super::super::checker::Check;
use super::super::document::{entry, key};
use super::super::endpoint::Traffic;
use super::super::flow::Flow;
use super::Pattern;

/// Transfers at random times (a Poisson process at each sender), whatever becomes of those before. Each has a connection of its own; to
/// where, `pattern` says.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("arrivals")]
pub struct Arrivals {
    /// Offered load: application bytes that each sender is asked to send, as a share of the rate of its link.
    #[parameter(default = 0.5, share, above = 0.0, required)]
    pub load: f64,
    /// Where the sizes of transfers come from.
    pub sizes: Sizes,
    /// Bytes of every transfer, in place of `sizes`.
    #[parameter(above = Some(Bytes(0)))]
    pub size: Option<Bytes>,
}

/// A published distribution of flow sizes. Between the published points sizes are uniform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum Sizes {
    /// A cluster that answers web searches: Alizadeh et al., DCTCP, SIGCOMM 2010; mean 1.71 MB.
    #[default]
    WebSearch,
    /// A cluster that mines data: Greenberg et al., VL2, SIGCOMM 2009; mean 12.7 MB, half of the transfers below 1.1 kB.
    DataMining,
}

impl Sizes {
    fn distribution(self) -> Empirical {
        match self {
            Sizes::WebSearch => Empirical::WEB_SEARCH,
            Sizes::DataMining => Empirical::DATA_MINING,
        }
    }
}

impl Arrivals {
    /// Mean bytes of a transfer.
    pub fn mean_size(&self) -> f64 {
        self.size.map_or_else(|| self.sizes.distribution().mean(), |size| size.0 as f64)
    }

    /// Bytes of a transfer, at least one.
    pub fn draw_size(&self, stream: &mut Stream) -> Bytes {
        self.size.unwrap_or_else(|| Bytes((self.sizes.distribution().draw(stream) as u64).max(1)))
    }
}

impl Pattern for Arrivals {
    fn check(&self, check: &mut Check<'_>, number: usize, flow: &Flow) {
        if self.size.is_some() && flow.keys.names().any(|name| name == "sizes") {
            let message = "`size` and `sizes` exclude each other";
            check.error(&entry("flow", number, &["size"]), message, "leave one out");
        }
        let scenario = check.scenario;
        if let Some(host) = scenario.host.iter().find(|host| host.traffic() != Traffic::Model) {
            let message = format!("app = \"arrivals\" needs simulated hosts, and `{}` is not", host.name);
            let help = "bulk and transfer can send to real hosts";
            check.errors.about(
                check.root,
                &[key("flow"), crate::document::Step::Index(number), key("app")],
                message,
                vec![help.to_owned()],
            );
        }
    }
}
