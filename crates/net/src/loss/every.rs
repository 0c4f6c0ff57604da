//! Periodic losses.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Every n-th packet is lost: the n-th, the 2n-th, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("every")]
pub struct EveryParams {
    /// How many packets from one loss to the next.
    #[parameter(default = 1000, min = 1, required)]
    pub n: u64,
}

/// Losses by count.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    n: u64,
    offered: u64,
}

impl Model<bool> for Every {
    type Params = EveryParams;

    fn new(params: &EveryParams) -> Self {
        Every { n: params.n.max(1), offered: 0 }
    }
    fn decide(&mut self, _: Timestamp, _: &mut Stream) -> bool {
        self.offered += 1;
        self.offered.is_multiple_of(self.n)
    }
    fn words(params: &EveryParams) -> String {
        format!("loss of every {}th packet", params.n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    #[test]
    fn the_first_lost_is_the_nth() {
        assert_eq!(lost("every:n=3", 10), [3, 6, 9]);
        assert_eq!(lost("every:n=1", 3), [1, 2, 3]);
    }
}
