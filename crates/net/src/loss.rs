//! Loss models: which packets a link loses besides those its queue drops.

use warpline_core::{Body, Packet, Stream};

use crate::parameter::{InvalidParameter, probability};

/// Which packets are lost.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum LossKind {
    /// None.
    #[default]
    None,
    /// Each on its own with probability `p` (netem `loss random`).
    Bernoulli {
        /// Between 0 and 1.
        p: f64,
    },
    /// Packets `offset + n`, `offset + 2 n`, ... counted from 1.
    Every {
        /// At least 1.
        n: u64,
        /// Packets let through before counting begins. Default 0: the n-th packet is the first lost.
        offset: u64,
    },
    /// Packets by number, counted from 1.
    Listed {
        /// In rising order.
        packets: Vec<u64>,
    },
    /// Two states, good and bad (Gilbert 1960, Elliott 1963), as netem `loss gemodel p r 1-h 1-k`. A packet meets the loss
    /// probability of the state it finds; then the state may change. The first packet finds the good state. In the long run
    /// the share of packets that find the bad state is p / (p + r).
    GilbertElliott {
        /// Probability of going from good to bad, per packet.
        p: f64,
        /// Probability of going from bad to good, per packet (netem's default: 1 - p).
        r: f64,
        /// Loss probability in the bad state: netem's `1-h` (its default: 1).
        loss_bad: f64,
        /// Loss probability in the good state: netem's `1-k` (its default: 0).
        loss_good: f64,
    },
}

/// A loss model's parameters.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LossConfig {
    /// Which packets.
    pub kind: LossKind,
    /// Only packets with payload are counted and lost; pure ACKs, SYNs and FINs pass. Default false.
    pub data_only: bool,
}

impl LossConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        match &self.kind {
            LossKind::None => Ok(()),
            LossKind::Bernoulli { p } => probability("p", *p),
            LossKind::Every { n, .. } if *n == 0 => {
                Err(InvalidParameter::new("n", n, "it must be at least 1 (every packet)"))
            }
            LossKind::Every { .. } => Ok(()),
            LossKind::Listed { packets } => {
                if packets.first() == Some(&0) {
                    return Err(InvalidParameter::new("packets", 0, "packets are counted from 1"));
                }
                match packets.windows(2).find(|pair| pair[0] >= pair[1]) {
                    Some(pair) => {
                        let allowed = format!("it must be above {}, which is before it", pair[0]);
                        Err(InvalidParameter::new("packets", pair[1], allowed))
                    }
                    None => Ok(()),
                }
            }
            LossKind::GilbertElliott { p, r, loss_bad, loss_good } => {
                probability("p", *p)?;
                probability("r", *r)?;
                probability("loss_bad", *loss_bad)?;
                probability("loss_good", *loss_good)
            }
        }
    }
    /// The model, drawing from `stream`.
    pub fn build(&self, stream: Stream) -> LossModel {
        LossModel { config: self.clone(), stream, offered: 0, next: 0, bad: false }
    }
}

/// A loss model at work on one link.
#[derive(Clone, Debug)]
pub struct LossModel {
    config: LossConfig,
    stream: Stream,
    /// Packets counted so far.
    offered: u64,
    /// The next entry of the list.
    next: usize,
    /// Whether the state is bad.
    bad: bool,
}

impl LossModel {
    /// Whether it never loses anything, so that the link need not ask.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.config.kind == LossKind::None
    }
    /// Whether `packet`, the next one offered to the link, is lost.
    #[inline]
    pub fn lose(&mut self, packet: &Packet) -> bool {
        if self.is_none() || (self.config.data_only && !has_payload(packet)) {
            return false;
        }
        self.next_is_lost()
    }

    fn next_is_lost(&mut self) -> bool {
        self.offered += 1;
        match &self.config.kind {
            LossKind::None => false,
            LossKind::Bernoulli { p } => self.stream.chance(*p),
            LossKind::Every { n, offset } => {
                self.offered > *offset && (self.offered - offset).is_multiple_of((*n).max(1))
            }
            LossKind::Listed { packets } => {
                let lost = packets.get(self.next) == Some(&self.offered);
                self.next += usize::from(lost);
                lost
            }
            LossKind::GilbertElliott { p, r, loss_bad, loss_good } => {
                let (loss, change) = if self.bad { (loss_bad, r) } else { (loss_good, p) };
                let lost = self.stream.chance(*loss);
                self.bad ^= self.stream.chance(*change);
                lost
            }
        }
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
    use warpline_core::{Datagram, Ecn, EndpointId, FlowId, Segment, Streams};

    fn packet(body: Body) -> Packet {
        Packet { flow: FlowId(0), to: EndpointId(0), size: 1500, ecn: Ecn::NotEct, class: 0, body, id: 0 }
    }
    fn data() -> Packet {
        packet(Body::Udp(Datagram { len: 1000, ..Default::default() }))
    }
    fn build(kind: LossKind) -> LossModel {
        let config = LossConfig { kind, data_only: false };
        config.validate().unwrap();
        config.build(Streams::new(5).stream("loss"))
    }
    /// The numbers, from 1, of the packets lost among `n`.
    fn lost(kind: LossKind, n: u64) -> Vec<u64> {
        let mut model = build(kind);
        (1..=n).filter(|_| model.lose(&data())).collect()
    }

    #[test]
    fn counted_losses_hit_the_numbers_they_name() {
        assert_eq!(lost(LossKind::Every { n: 3, offset: 0 }, 10), [3, 6, 9]);
        assert_eq!(lost(LossKind::Every { n: 3, offset: 4 }, 14), [7, 10, 13]);
        assert_eq!(lost(LossKind::Every { n: 1, offset: 2 }, 4), [3, 4]);
        assert_eq!(lost(LossKind::Listed { packets: vec![1, 5, 6] }, 20), [1, 5, 6]);
        assert!(lost(LossKind::None, 100).is_empty());
    }

    #[test]
    fn data_only_neither_counts_nor_loses_acknowledgements() {
        let config = LossConfig { kind: LossKind::Listed { packets: vec![2] }, data_only: true };
        let mut model = config.build(Streams::new(5).stream("loss"));
        let ack = packet(Body::Tcp(Segment::default()));
        let segment = packet(Body::Tcp(Segment { len: 1448, ..Default::default() }));
        let offered = [&segment, &ack, &ack, &segment, &segment];
        assert_eq!(offered.map(|packet| model.lose(packet)), [false, false, false, true, false]);
    }

    #[test]
    fn bernoulli_is_within_binomial_noise() {
        let n = 200_000u64;
        for p in [0.001, 0.01, 0.5] {
            let share = lost(LossKind::Bernoulli { p }, n).len() as f64 / n as f64;
            let sigma = (p * (1.0 - p) / n as f64).sqrt();
            assert!((share - p).abs() < 4.0 * sigma, "{p}: {share}");
        }
        assert!(lost(LossKind::Bernoulli { p: 0.0 }, 1000).is_empty());
        assert_eq!(lost(LossKind::Bernoulli { p: 1.0 }, 1000).len(), 1000);
    }

    #[test]
    fn gilbert_elliott_has_its_mean_and_its_bursts() {
        let (p, r) = (0.01, 0.2);
        let n = 500_000u64;
        let hits = lost(LossKind::GilbertElliott { p, r, loss_bad: 1.0, loss_good: 0.0 }, n);
        // Share p / (p + r); neighbours correlate with 1 - p - r, which widens the binomial noise.
        let share = hits.len() as f64 / n as f64;
        let pi = p / (p + r);
        let sigma = (pi * (1.0 - pi) / n as f64 * (2.0 - p - r) / (p + r)).sqrt();
        assert!((share - pi).abs() < 4.0 * sigma, "{share} {pi}");
        // Bursts are geometric with mean 1 / r and standard deviation sqrt(1 - r) / r.
        let bursts = 1 + hits.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let mean = hits.len() as f64 / bursts as f64;
        let sigma = (1.0 - r).sqrt() / r / (bursts as f64).sqrt();
        assert!((mean - 1.0 / r).abs() < 4.0 * sigma, "{mean}");
        // Partial loss in both states.
        let kind = LossKind::GilbertElliott { p: 0.5, r: 0.5, loss_bad: 0.4, loss_good: 0.1 };
        let share = lost(kind, n).len() as f64 / n as f64;
        assert!((share - 0.25).abs() < 4.0 * (0.25f64 * 0.75 / n as f64).sqrt(), "{share}");
    }

    #[test]
    fn bad_parameters_are_refused() {
        let message = |kind| LossConfig { kind, data_only: false }.validate().unwrap_err().to_string();
        assert!(message(LossKind::Bernoulli { p: 2.0 }).contains("between 0 and 1"));
        assert!(message(LossKind::Every { n: 0, offset: 0 }).contains("at least 1"));
        assert!(message(LossKind::Listed { packets: vec![0] }).contains("from 1"));
        assert_eq!(
            message(LossKind::Listed { packets: vec![3, 3] }),
            "`packets` is 3: it must be above 3, which is before it"
        );
    }
}
