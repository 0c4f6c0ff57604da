//! Loss models: which packets a link loses besides those its queue drops.

// A new loss model is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
models! {
    /// Which packets are lost, as plain data. As text it is a name and parameters: `bernoulli:probability=0.01`.
    #[choice("loss model")]
    LossKind,
    /// Any loss model: whether the next packet is lost.
    AnyLoss -> bool;
    none::NoLoss,
    bernoulli::Bernoulli,
    every::Every,
    listed::Listed,
    gilbert_elliott::GilbertElliott,
    correlated::Correlated,
    four_state::FourState,
    trace::Traced,
}

use warpline_core::parameter::Choice;
use warpline_core::{Body, Packet, Stream, Timestamp};

use crate::model::Model;

impl Default for LossKind {
    fn default() -> Self {
        LossKind::NoLoss(NoLoss {})
    }
}

/// What a link loses.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LossConfig {
    /// Which packets.
    pub kind: LossKind,
    /// Only packets with payload are counted and lost; pure ACKs, SYNs and FINs pass. Default false.
    pub data_only: bool,
}

impl From<LossKind> for LossConfig {
    fn from(kind: LossKind) -> Self {
        LossConfig { kind, data_only: false }
    }
}

impl LossConfig {
    /// The model, drawing from `stream`; none where nothing is ever lost.
    pub(crate) fn build(&self, stream: impl FnOnce() -> Stream) -> Option<LossModel> {
        let model = || LossModel { kind: self.kind.build(), data_only: self.data_only, stream: stream() };
        (self.kind != LossKind::default()).then(model)
    }
}

/// A loss model at work on one link.
#[derive(Clone, Debug)]
pub(crate) struct LossModel {
    kind: AnyLoss,
    data_only: bool,
    stream: Stream,
}

impl LossModel {
    /// Whether `packet`, the next one on the wire, is lost; its last bit leaves at `at`.
    #[inline]
    pub(crate) fn lose(&mut self, at: Timestamp, packet: &Packet) -> bool {
        (!self.data_only || has_payload(packet)) && self.kind.decide(at, &mut self.stream)
    }
}

fn has_payload(packet: &Packet) -> bool {
    match packet.body {
        Body::Tcp(segment) => segment.len > 0,
        Body::Udp(datagram) => datagram.len > 0,
        // Nobody has looked inside.
        Body::Frame(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Ecn, EndpointId, FlowId, Segment, Streams};

    /// The numbers, from 1, of the packets that a model loses among `n`.
    pub(super) fn lost(kind: &str, n: u64) -> Vec<u64> {
        let kind: LossKind = kind.parse().unwrap_or_else(|error| panic!("{error}"));
        let (mut model, mut stream) = (kind.build(), Streams::new(5).stream("loss"));
        (1..=n).filter(|_| model.decide(Timestamp::ZERO, &mut stream)).collect()
    }

    #[test]
    fn data_only_neither_counts_nor_loses_acknowledgements() {
        let kind = LossKind::Listed(ListedParams { packets: vec![2] });
        let config = LossConfig { kind, data_only: true };
        let mut model = config.build(|| Streams::new(5).stream("loss")).unwrap();
        let packet = |len| {
            let segment = Segment { len, ..Segment::default() };
            Packet::tcp(FlowId(0), EndpointId(0), segment, Ecn::NotEct)
        };
        let (ack, segment) = (packet(0), packet(1448));
        let offered = [&segment, &ack, &ack, &segment, &segment];
        assert_eq!(
            offered.map(|packet| model.lose(Timestamp::ZERO, packet)),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (text, message) in [
            ("bernoulli:probability=2", "`probability` of the loss model `bernoulli` is 2; allowed: 0 to 1"),
            ("every:n=0", "`n` of the loss model `every` is 0; allowed: 1 or more"),
            ("list:packets=3+0", "`packets` of the loss model `list` is 3+0; allowed: 1 or more"),
        ] {
            assert_eq!(text.parse::<LossKind>().unwrap_err().to_string(), message);
        }
    }
}
