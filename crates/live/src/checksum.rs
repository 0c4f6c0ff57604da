//! The Internet checksum (RFC 1071): sums, and completion of TCP and UDP checksums that a sender left to its network card.

use crate::datagram::Header;
use crate::ip::{TCP, UDP};

/// The sum of 16-bit words, not yet folded. To add sums, all but the last must be of an even number of bytes.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // Words of 32 bits: a sum of those folds to the same 16 bits (RFC 1071 section 2, parallel summation).
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 =
        words.by_ref().map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let mut pairs = words.remainder().chunks_exact(2);
    sum += pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>();
    if let [last] = pairs.remainder() {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// The complement of a sum folded to 16 bits: zero if the summed bytes contain their own correct checksum.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Computes the checksum of the TCP segment or UDP datagram in a datagram whose header has been read. Other protocols, and datagrams that are too
/// short, are left alone.
pub fn complete(datagram: &mut [u8], header: &Header) {
    let (start, addresses) = match header.version {
        4 => (usize::from(datagram[0] & 0xf) * 4, 12..20),
        // With extension headers the sender has computed it itself.
        _ if datagram[6] == header.protocol => (40, 8..40),
        _ => return,
    };
    let at = match header.protocol {
        TCP => start + 16,
        UDP => start + 6,
        _ => return,
    };
    if datagram.len() < at + 2 {
        return;
    }
    datagram[at..at + 2].fill(0);
    let pseudo = sum(&datagram[addresses]) + u64::from(header.protocol) + (datagram.len() - start) as u64;
    let checksum = match fold(pseudo + sum(&datagram[start..])) {
        // RFC 768: zero means that there is no checksum.
        0 if header.protocol == UDP => 0xffff,
        checksum => checksum,
    };
    datagram[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::read;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The RFC's own example, section 3.
        assert_eq!(!fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(!fold(sum(&[0x01, 0x02, 0x03])), 0x0402);
    }

    #[test]
    fn what_is_completed_sums_to_zero() {
        for (version, protocol, payload) in [(4, UDP, 7), (4, TCP, 12), (6, UDP, 8), (6, TCP, 1)] {
            let transport = if protocol == TCP { 20 } else { 8 } + payload;
            let mut bytes = if version == 4 {
                let mut bytes = vec![0x45, 0, 0, 20 + transport as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
                bytes.extend([192, 0, 2, 1, 192, 0, 2, 2]);
                bytes
            } else {
                let mut bytes = vec![0x60, 0, 0, 0, 0, transport as u8, protocol, 64];
                bytes.extend([7; 32]);
                bytes
            };
            let start = bytes.len();
            bytes.extend((0..transport).map(|i| (i as u8).wrapping_mul(37)));
            let header = read(&bytes).unwrap();
            complete(&mut bytes, &header);
            let addresses = if version == 4 { 12..20 } else { 8..40 };
            let all = sum(&bytes[addresses]) + u64::from(protocol) + transport as u64 + sum(&bytes[start..]);
            assert_eq!(fold(all), 0, "{version} {protocol}");
            // Again gives the same.
            let once = bytes.clone();
            complete(&mut bytes, &header);
            assert_eq!(bytes, once);
        }
    }

    #[test]
    fn what_is_too_short_is_left_alone() {
        let mut bytes =
            vec![0x45, 0, 0, 25, 0, 0, 0, 0, 64, UDP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5];
        let (before, header) = (bytes.clone(), read(&bytes).unwrap());
        complete(&mut bytes, &header);
        assert_eq!(bytes, before);
    }
}
