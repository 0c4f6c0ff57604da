//! The Internet checksum (RFC 1071).

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The RFC's own example, section 3.
        assert_eq!(!fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(!fold(sum(&[0x01, 0x02, 0x03])), 0x0402);
    }
}
