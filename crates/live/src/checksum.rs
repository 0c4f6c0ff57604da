//! Internet checksums (RFC 1071) of TCP and UDP, completed where a sender left them to its network card.

use crate::datagram::Header;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The sum of 16-bit words, not yet folded.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let mut sum: u64 = words.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    if let [last] = words.remainder() {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// The complement of a sum folded to 16 bits.
pub(crate) fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Computes the checksum of the TCP segment or UDP datagram in a datagram whose header was read; anything else, and what is too
/// short, is left alone.
pub fn complete(datagram: &mut [u8], header: &Header) {
    let (start, addresses) = match header.version {
        4 => (usize::from(datagram[0] & 0xf) * 4, 12..20),
        // Where there are extension headers a sender has computed it itself.
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
    let checksum = match folded(pseudo + sum(&datagram[start..])) {
        // RFC 768: zero says that there is none.
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
            assert_eq!(folded(all), 0, "{version} {protocol}");
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
