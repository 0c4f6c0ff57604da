//! CRC-32 (IEEE 802.3), as in Python's zlib and Go's hash/crc32.

/// The checksum of some bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(!0, step)
}
