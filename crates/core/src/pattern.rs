//! The bytes that stand for data: both ends of a connection know them, so that what arrives can be checked.
//!
//! This file needs nothing else of the crate: the agent in a guest has it, too.

/// Bytes that depend only on their offset, and do not repeat within any run: each group of eight is a hash of its offset / 8
/// (the finaliser of SplitMix64), lowest byte first. So both ends know what to expect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pattern;

impl Pattern {
    /// The eight bytes at eight times `index`.
    fn word(index: u64) -> [u8; 8] {
        let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }

    /// Fills `bytes` with the pattern from `offset` on.
    pub fn fill(mut offset: u64, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let word = Pattern::word(offset / 8);
            let skip = (offset % 8) as usize;
            let len = (8 - skip).min(bytes.len());
            let (now, later) = bytes.split_at_mut(len);
            now.copy_from_slice(&word[skip..skip + len]);
            (offset, bytes) = (offset + len as u64, later);
        }
    }

    /// How many of `bytes` differ from the pattern at `offset`.
    pub fn differences(offset: u64, bytes: &[u8]) -> u64 {
        let mut expected = [0; 64];
        let mut differences = 0;
        for (index, chunk) in bytes.chunks(expected.len()).enumerate() {
            let expected = &mut expected[..chunk.len()];
            Pattern::fill(offset + 64 * index as u64, expected);
            if chunk != expected {
                differences += chunk.iter().zip(&*expected).filter(|(a, b)| a != b).count() as u64;
            }
        }
        differences
    }
}
