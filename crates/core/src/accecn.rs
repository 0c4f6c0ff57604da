//! The option of Accurate ECN (AccECN): how many bytes of payload arrived with each codepoint, in the header of an acknowledgement.
//!
//! Source: RFC 9768 section 3.2.3 (figure 4: the two orders and their kinds; table 5: the lengths).

/// What counts of a counter: 24 bits.
const COUNTER: u32 = 0xff_ffff;
/// Bytes of a field.
const FIELD: usize = 3;
/// Kinds of the option: order 0, which begins with ECT(0), and order 1, which begins with ECT(1).
const KINDS: [u8; 2] = [172, 174];
/// No operation: what pads options.
const NOP: u8 = 1;

/// An AccECN option. Its counters are of 24 bits, and come in the order ECT(0), CE, ECT(1) or in the opposite one. Any number of them may be left
/// out from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccEcn {
    ect1_first: bool,
    len: u8,
    counts: [u32; 3],
}

impl AccEcn {
    /// Most bytes that an option takes, with what pads it.
    pub const MAX_LEN: usize = 12;

    /// An option with the first `fields` of the counters, which are those of ECT(0), CE and ECT(1), or the other way round.
    pub fn new([ect0, ce, ect1]: [u32; 3], ect1_first: bool, fields: usize) -> AccEcn {
        let mut counts = if ect1_first { [ect1, ce, ect0] } else { [ect0, ce, ect1] };
        let len = fields.min(3);
        for (place, count) in counts.iter_mut().enumerate() {
            *count = if place < len { *count & COUNTER } else { 0 };
        }
        AccEcn { ect1_first, len: len as u8, counts }
    }

    fn field(&self, place: usize) -> Option<u32> {
        self.counts[..usize::from(self.len)].get(place).copied()
    }
    /// Bytes that arrived as ECT(0), modulo 2^24 as all counters are; none if the field is left out.
    pub fn ect0(&self) -> Option<u32> {
        self.field(if self.ect1_first { 2 } else { 0 })
    }
    /// Bytes that arrived marked congestion-experienced.
    pub fn ce(&self) -> Option<u32> {
        self.field(1)
    }
    /// Bytes that arrived as ECT(1).
    pub fn ect1(&self) -> Option<u32> {
        self.field(if self.ect1_first { 0 } else { 2 })
    }

    /// Bytes that an option with so many fields takes, padded to words.
    pub const fn padded_len(fields: usize) -> usize {
        (2 + FIELD * fields).next_multiple_of(4)
    }
    /// Bytes that it takes, padded to words.
    pub fn len(&self) -> usize {
        Self::padded_len(usize::from(self.len))
    }
    /// Whether it has no fields.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes on the wire, padded to words.
    pub fn bytes(&self) -> ([u8; Self::MAX_LEN], usize) {
        let mut bytes = [NOP; Self::MAX_LEN];
        bytes[0] = KINDS[usize::from(self.ect1_first)];
        bytes[1] = 2 + FIELD as u8 * self.len;
        for (place, count) in bytes[2..].chunks_exact_mut(FIELD).zip(&self.counts[..usize::from(self.len)]) {
            place.copy_from_slice(&count.to_be_bytes()[1..]);
        }
        (bytes, self.len())
    }

    /// Reads an option of this kind, of which `data` is what follows kind and length. None if it is another option. Of an unknown length, the whole
    /// fields within count.
    pub fn read(kind: u8, data: &[u8]) -> Option<AccEcn> {
        let order = KINDS.iter().position(|own| *own == kind)?;
        let mut option = AccEcn { ect1_first: order == 1, ..AccEcn::default() };
        for (count, field) in option.counts.iter_mut().zip(data.chunks_exact(FIELD)) {
            *count = field.iter().fold(0, |count, &byte| count << 8 | u32::from(byte));
            option.len += 1;
        }
        Some(option)
    }

    /// In ten bytes: the first says the order and the number of fields and is never zero.
    pub(crate) fn pack(&self) -> [u8; 10] {
        let mut packed = [0; 10];
        packed[0] = 8 | u8::from(self.ect1_first) << 2 | self.len;
        for (place, count) in packed[1..].chunks_exact_mut(FIELD).zip(&self.counts) {
            place.copy_from_slice(&count.to_be_bytes()[1..]);
        }
        packed
    }
    /// What [`pack`](Self::pack) made; none of zeros.
    pub(crate) fn unpack(packed: [u8; 10]) -> Option<AccEcn> {
        let [shape, fields @ ..] = packed;
        if shape == 0 {
            return None;
        }
        let kind = KINDS[usize::from(shape >> 2 & 1)];
        AccEcn::read(kind, &fields[..FIELD * usize::from(shape & 3)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_are_those_of_figure_4_and_unchanged_fields_are_left_out_from_the_end() {
        let counts = [0x01_0203, 0x0405_0607, 0x08_0900];
        let bytes = |ect1_first, fields| {
            let (bytes, len) = AccEcn::new(counts, ect1_first, fields).bytes();
            bytes[..len].to_vec()
        };
        assert_eq!(bytes(false, 3), [172, 11, 1, 2, 3, 5, 6, 7, 8, 9, 0, 1]);
        assert_eq!(bytes(true, 3), [174, 11, 8, 9, 0, 5, 6, 7, 1, 2, 3, 1]);
        assert_eq!(bytes(false, 2), [172, 8, 1, 2, 3, 5, 6, 7]);
        assert_eq!(bytes(true, 1), [174, 5, 8, 9, 0, 1, 1, 1]);
        assert_eq!(bytes(false, 0), [172, 2, 1, 1]);
    }

    #[test]
    fn what_is_read_is_what_was_written_and_whole_fields_of_another_length_count() {
        for ect1_first in [false, true] {
            for fields in 0..=3 {
                let option = AccEcn::new([1, 2, 3], ect1_first, fields);
                let (bytes, _) = option.bytes();
                assert_eq!(AccEcn::read(bytes[0], &bytes[2..usize::from(bytes[1])]), Some(option));
                assert_eq!(AccEcn::unpack(option.pack()), Some(option));
            }
        }
        let odd = AccEcn::read(174, &[0, 0, 9, 0, 0, 8, 7]).unwrap();
        assert_eq!((odd.ect1(), odd.ce(), odd.ect0()), (Some(9), Some(8), None));
        assert_eq!(AccEcn::read(173, &[0; 9]), None);
        assert_eq!(AccEcn::unpack([0; 10]), None);
    }
}
