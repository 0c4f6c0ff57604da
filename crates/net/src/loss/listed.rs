//! Losses of packets by number.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Listed packets are lost, counted from 1 in the order in which they are sent on the link.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("list")]
pub struct ListedParams {
    /// Numbers of the packets lost.
    #[parameter(default = vec![17, 18, 40], min = vec![1], required)]
    pub packets: Vec<u64>,
}

/// Losses from a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// In rising order.
    packets: Vec<u64>,
    /// The next entry.
    next: usize,
    offered: u64,
}

impl Model<bool> for Listed {
    type Params = ListedParams;

    fn new(params: &ListedParams) -> Self {
        let mut packets = params.packets.clone();
        packets.sort_unstable();
        packets.dedup();
        Listed { packets, next: 0, offered: 0 }
    }
    fn decide(&mut self, _: Timestamp, _: &mut Stream) -> bool {
        self.offered += 1;
        let lost = self.packets.get(self.next) == Some(&self.offered);
        self.next += usize::from(lost);
        lost
    }
    fn words(params: &ListedParams) -> String {
        format!("loss of {} listed packets", params.packets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    #[test]
    fn the_packets_named_are_lost_in_whatever_order_they_are_listed() {
        assert_eq!(lost("list:packets=1+5+6", 20), [1, 5, 6]);
        assert_eq!(lost("list:packets=6+1+5+1", 20), [1, 5, 6]);
    }
}
