//! What becomes of a packet on the wire: it is lost, a copy of it is made, or a bit of it is changed.
//!
//! Source: Linux net/sched/sch_netem.c (netem_enqueue). As there, a packet that is lost has no copy and is not changed; the copy is made before
//! the change, so it is whole; and the packet that was changed goes on as it is, to be dropped by whoever checks it.
//!
//! Departures: netem puts the copy into its queue again, where it is sent, delayed, lost and changed as a packet of its own, and where a packet that is to be
//! both copied and lost arrives once. Here the copy is made on the wire: it arrives right behind its packet, takes no time on this link, and nothing
//! more becomes of it there. All three draw a number for every packet sent, whatever the others decide, so that they do not change each other.

use warpline_core::{Packet, Stream, Timestamp};

use crate::loss::{LossConfig, LossKind, LossModel};

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate(u8);

impl Fate {
    /// It arrives as it is.
    pub(crate) const WHOLE: Fate = Fate(0);
    const LOST: u8 = 1;
    const COPIED: u8 = 2;
    const DAMAGED: u8 = 4;

    /// It arrives as it is, once.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self == Fate::WHOLE
    }
    /// It does not arrive.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        self.0 & Fate::LOST != 0
    }
    /// A copy arrives behind it.
    #[inline]
    pub(crate) fn is_copied(self) -> bool {
        self.0 & Fate::COPIED != 0
    }
    /// It arrives with a bit changed.
    #[inline]
    pub(crate) fn is_damaged(self) -> bool {
        self.0 & Fate::DAMAGED != 0
    }
    /// As three bits, and back.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
    pub(crate) const fn of(bits: u8) -> Fate {
        Fate(bits)
    }
}

/// What decides it on one link.
#[derive(Clone, Debug)]
pub(crate) struct Fates {
    loss: Option<LossModel>,
    duplicate: Option<LossModel>,
    corrupt: Option<LossModel>,
}

/// Models that take the place of others; `None` for those that stay, and within it for none at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    pub(crate) loss: Option<Option<LossModel>>,
    pub(crate) duplicate: Option<Option<LossModel>>,
    pub(crate) corrupt: Option<Option<LossModel>>,
}

impl Fates {
    /// The models, each drawing from the stream of its name; none where every packet arrives as it is.
    pub(crate) fn new(
        loss: &LossConfig,
        duplicate: &LossKind,
        corrupt: &LossKind,
        stream: impl Fn(&str) -> Stream,
    ) -> Option<Self> {
        let chosen = |kind: &LossKind, name| LossConfig::from(kind.clone()).build(|| stream(name));
        let fates = Fates {
            loss: loss.build(|| stream("loss")),
            duplicate: chosen(duplicate, "duplicate"),
            corrupt: chosen(corrupt, "corrupt"),
        };
        fates.any()
    }

    /// The models after some of them have been replaced.
    pub(crate) fn changed(fates: Option<Fates>, new: Models) -> Option<Self> {
        let Fates { loss, duplicate, corrupt } =
            fates.unwrap_or(Fates { loss: None, duplicate: None, corrupt: None });
        let fates = Fates {
            loss: new.loss.unwrap_or(loss),
            duplicate: new.duplicate.unwrap_or(duplicate),
            corrupt: new.corrupt.unwrap_or(corrupt),
        };
        fates.any()
    }

    /// These, if any packet may not arrive as it is.
    fn any(self) -> Option<Self> {
        let any = self.loss.is_some() || self.duplicate.is_some() || self.corrupt.is_some();
        any.then_some(self)
    }

    /// What becomes of `packet`, the next one on the wire, whose last bit leaves at `at`.
    pub(crate) fn decide(&mut self, at: Timestamp, packet: &Packet) -> Fate {
        let hit = |model: &mut Option<LossModel>, bit| {
            let hit = model.as_mut().is_some_and(|model| model.lose(at, packet));
            if hit { bit } else { 0 }
        };
        let lost = hit(&mut self.loss, Fate::LOST);
        let others = hit(&mut self.duplicate, Fate::COPIED) | hit(&mut self.corrupt, Fate::DAMAGED);
        Fate(if lost != 0 { lost } else { others })
    }
}
