//! The path that a capture shows: its ends, its delay, and its two directions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::direction::{Direction, Evidence, estimate};
use super::half::Sample;
use super::traffic::Traffic;

/// A path, from the capture's side to the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// The addresses at each end, in order: those near the capture, and the far ones with what their round trip takes beyond that of the nearest of them, in seconds.
    pub near: Vec<IpAddr>,
    /// See `near`.
    pub far: Vec<(IpAddr, f64)>,
    /// The shortest round trip of an empty path, without what its packets take to be sent, in seconds.
    pub rtt: Option<f64>,
    /// From the near end to the far one, and back.
    pub ways: [Direction; 2],
}

impl Path {
    /// Estimates the path of what was captured.
    pub(super) fn of(traffic: &Traffic) -> Path {
        let near = traffic.near();
        let mut path = Path { near: near.clone(), ..Path::default() };
        // Of each connection: the end that is near, if the other is not.
        let crossing: Vec<(usize, usize)> = traffic
            .connections
            .iter()
            .enumerate()
            .filter_map(|(number, connection)| {
                let [first, second] = connection.ends.map(|end| is_among(&near, end.ip()));
                (first != second).then_some((number, usize::from(second)))
            })
            .collect();
        let evidence = Evidence::of(traffic, &crossing, &near);
        path.ways = [false, true].map(|back| estimate(&evidence, back));
        // Round trips by far address, of both halves together.
        let mut far: BTreeMap<IpAddr, f64> = BTreeMap::new();
        for &(number, near_end) in &crossing {
            let connection = &traffic.connections[number];
            let address = connection.ends[1 - near_end].ip();
            let beyond = path.shortest(&connection.halves[near_end].samples);
            let before = path.shortest(&connection.halves[1 - near_end].samples).unwrap_or(0.0);
            let whole = beyond.map_or(f64::INFINITY, |beyond| beyond + before);
            let shortest = far.entry(address).or_insert(f64::INFINITY);
            *shortest = shortest.min(whole);
        }
        for (from, to) in traffic.datagrams.keys() {
            for address in [from.ip(), to.ip()] {
                if !is_among(&near, address) {
                    far.entry(address).or_insert(f64::INFINITY);
                }
            }
        }
        let shortest = far.values().copied().fold(f64::INFINITY, f64::min);
        path.rtt = shortest.is_finite().then_some(shortest.max(0.0));
        path.far = far
            .into_iter()
            .map(|(address, rtt)| (address, if rtt.is_finite() { rtt - shortest } else { 0.0 }))
            .collect();
        path
    }

    /// The shortest of some round trips, less what their packets take to be sent at the path's rate.
    fn shortest(&self, samples: &[Sample]) -> Option<f64> {
        let rate = self.ways.iter().filter_map(|way| way.rate).fold(f64::INFINITY, f64::min);
        let empty = |sample: &Sample| sample.rtt - f64::from(sample.bytes) * 8.0 / rate;
        samples.iter().map(empty).min_by(f64::total_cmp).map(|shortest| shortest.max(0.0))
    }
}

/// Whether an address is one of these, which are in order.
fn is_among(addresses: &[IpAddr], address: IpAddr) -> bool {
    addresses.binary_search(&address).is_ok()
}
