//! Frames that are to leave by ports. In most turns few of many ports have some, and only those are looked at.

use std::cmp::Reverse;

use warpline_core::Timestamp;

use crate::port::PortId;

/// Frames that leave by one port, in this order, each with the instant at which it was due.
pub(crate) type Leaving = Vec<(Timestamp, u32)>;

/// The frames to leave by each port.
#[derive(Debug)]
pub(crate) struct Outgoing {
    frames: Vec<Leaving>,
    /// The ports that have some, each once; if `sorted`, the first one is last.
    busy: Vec<PortId>,
    sorted: bool,
}

impl Outgoing {
    /// Nothing for this many ports.
    pub(crate) fn new(ports: usize) -> Self {
        Outgoing { frames: vec![Vec::new(); ports], busy: Vec::new(), sorted: true }
    }

    /// Adds a port, which gets the next number.
    pub(crate) fn add_port(&mut self) {
        self.frames.push(Vec::new());
    }

    /// Adds a frame to leave by a port.
    #[inline]
    pub(crate) fn push(&mut self, port: PortId, due: Timestamp, frame: u32) {
        let frames = &mut self.frames[port.0 as usize];
        if frames.is_empty() {
            self.busy.push(port);
            self.sorted = false;
        }
        frames.push((due, frame));
    }

    /// Takes the frames of the first port that has some.
    pub(crate) fn take(&mut self) -> Option<(PortId, Leaving)> {
        if !std::mem::replace(&mut self.sorted, true) {
            self.busy.sort_unstable_by_key(|&port| Reverse(port));
        }
        let port = self.busy.pop()?;
        Some((port, std::mem::take(&mut self.frames[port.0 as usize])))
    }

    /// Gives back the memory of frames that were taken of a port, which has got no others since.
    pub(crate) fn give_back(&mut self, port: PortId, mut frames: Leaving) {
        frames.clear();
        self.frames[port.0 as usize] = frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_in_order_and_only_those_that_have_frames() {
        let mut outgoing = Outgoing::new(5);
        outgoing.add_port();
        for round in 0..2 {
            for (port, frame) in [(5, 0), (1, 1), (3, 2), (1, 3)] {
                outgoing.push(PortId(port), Timestamp::from_secs(round), frame);
            }
            let mut taken = Vec::new();
            while let Some((port, frames)) = outgoing.take() {
                taken.extend(frames.iter().map(|&(due, frame)| (port.0, due, frame)));
                outgoing.give_back(port, frames);
            }
            let due = Timestamp::from_secs(round);
            assert_eq!(taken, [(1, due, 1), (1, due, 3), (3, due, 2), (5, due, 0)]);
        }
    }

    #[test]
    fn what_comes_while_some_were_taken_has_its_place() {
        let mut outgoing = Outgoing::new(4);
        let at = Timestamp::ZERO;
        outgoing.push(PortId(1), at, 10);
        outgoing.push(PortId(2), at, 20);
        assert_eq!(outgoing.take(), Some((PortId(1), vec![(at, 10)])));
        // Its memory is not given back, as when a run fails meanwhile.
        for port in [3, 0, 1] {
            outgoing.push(PortId(port), at, port);
        }
        let ports: Vec<u32> = std::iter::from_fn(|| outgoing.take()).map(|(port, _)| port.0).collect();
        assert_eq!(ports, [0, 1, 2, 3]);
    }
}
