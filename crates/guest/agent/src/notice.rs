//! Messages between a guest and its driver during a run.
//!
//! A notice is an Ethernet frame of a special type on the guest's network device. So it arrives at an instant of the run's time, like a
//! packet, and a run in lock-step stays repeatable.

use serde::{Deserialize, Serialize};

use crate::Ending;

/// The EtherType of these frames: the first that IEEE 802 sets aside for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// Most bytes of an error's text in a notice, so that it fits into a frame.
const MOST_TEXT: usize = 400;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// From a guest: the condition with this number holds.
    Holds(u32),
    /// From a guest: the condition will not hold, and why.
    Fails(u32, Why),
    /// From a guest: the program with this number ([`ProgramOrder::notice`](crate::ProgramOrder::notice)) has ended.
    Ended(u32),
    /// To a guest: the condition with this number holds, on this guest or another.
    GoOn(u32),
    /// To a guest: the run is over.
    End,
}

/// Why a condition will not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its time is up.
    Limit,
    /// Its program has ended.
    Ended(Ending),
    /// It could not be checked.
    Blind(String),
}

fn cut(text: &mut String) {
    if let Some((at, _)) = text.char_indices().find(|(at, _)| *at >= MOST_TEXT) {
        text.truncate(at);
    }
}

impl Notice {
    /// Its frame, without the Ethernet header.
    pub fn payload(&self) -> Vec<u8> {
        let mut notice = self.clone();
        if let Notice::Fails(_, Why::Blind(text) | Why::Ended(Ending::NotStarted(text))) = &mut notice {
            cut(text);
        }
        // It holds numbers and short texts only, so this cannot fail.
        let json = serde_json::to_vec(&notice).unwrap_or_default();
        // Short frames are padded on their way, so the length comes first.
        let mut bytes = (json.len() as u16).to_be_bytes().to_vec();
        bytes.extend(json);
        bytes
    }

    /// Its whole frame, to the broadcast address.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 2, 0, 0]);
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(self.payload());
        frame
    }

    /// The notice in a frame's payload; `None` if there is none.
    pub fn read(payload: &[u8]) -> Option<Notice> {
        let (length, rest) = payload.split_at_checked(2)?;
        let length = u16::from_be_bytes([length[0], length[1]]);
        serde_json::from_slice(rest.get(..usize::from(length))?).ok()
    }

    /// The notice in a frame; `None` for any other frame.
    pub fn parse(frame: &[u8]) -> Option<Notice> {
        let (header, payload) = frame.split_at_checked(HEADER)?;
        if header[12..] != ETHERTYPE.to_be_bytes() {
            return None;
        }
        Notice::read(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_from_padded_frames() {
        let why = Why::Ended(Ending::Exited(3));
        for notice in
            [Notice::Holds(7), Notice::Fails(1, why), Notice::Ended(0), Notice::GoOn(9), Notice::End]
        {
            let mut frame = notice.frame();
            frame.resize(60.max(frame.len()), 0);
            assert_eq!(Notice::parse(&frame), Some(notice));
        }
        let long = Notice::Fails(1, Why::Blind("é".repeat(3000)));
        assert!(long.frame().len() < 1500);
        assert!(
            matches!(Notice::parse(&long.frame()), Some(Notice::Fails(1, Why::Blind(text))) if text.len() >= 400)
        );
    }

    #[test]
    fn other_frames_are_not_taken_for_notices() {
        let frame = Notice::End.frame();
        for length in 0..frame.len() {
            assert_eq!(Notice::parse(&frame[..length]), None);
        }
        let mut other = frame.clone();
        other[12] = 8;
        assert_eq!(Notice::parse(&other), None);
    }
}
