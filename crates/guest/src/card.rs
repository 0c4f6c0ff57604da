//! A check of what a guest's network card does (`native/clockshim/card.h`). The card itself is in the guest's process.

/// Bytes of a virtio header.
const META: usize = 10;
/// Bytes of an Ethernet header, and of IP headers.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// The flag of a virtio header that says that the checksum is right, and that it is still to be computed.
const VALID: u8 = 2;
const NEEDED: u8 = 1;
/// Frames of a segment, at most: all that it has, with payloads of one byte.
const MOST: usize = 1 << 16;

unsafe extern "C" {
    fn card_frames(
        meta: *const u8,
        bytes: *const u8,
        length: usize,
        split: usize,
        to: *mut u8,
        room: usize,
        lengths: *mut u32,
        most: usize,
    ) -> usize;
    fn card_judge(meta: *mut u8, datagram: *const u8, length: usize);
}

/// The frames that the card makes of what the kernel sends, in two parts of which the first has `split` bytes.
fn frames(meta: &[u8; META], bytes: &[u8], split: usize, room: usize) -> Vec<Vec<u8>> {
    assert!(split <= bytes.len());
    /// Bytes behind the room, which must stay as they are.
    const FENCE: [u8; 64] = [0x5a; 64];
    let mut to = vec![0; room];
    to.extend(FENCE);
    let mut lengths = vec![0u32; MOST];
    // SAFETY: the pointers are to as many bytes and numbers as the lengths say, and all of them live through the call.
    let count = unsafe {
        card_frames(
            meta.as_ptr(),
            bytes.as_ptr(),
            bytes.len(),
            split,
            to.as_mut_ptr(),
            room,
            lengths.as_mut_ptr(),
            MOST,
        )
    };
    assert_eq!(&to[room..], FENCE, "the card has written beyond its frames");
    let mut rest = &to[..room];
    let cut = |length: &u32| {
        let (frame, behind) = rest.split_at(*length as usize);
        rest = behind;
        frame.to_vec()
    };
    lengths[..count].iter().map(cut).collect()
}

/// What the card says of a datagram that has arrived.
fn judge(datagram: &[u8]) -> [u8; META] {
    let mut meta = [0xff; META];
    // SAFETY: both pointers are to as many bytes as the function reads and writes.
    unsafe { card_judge(meta.as_mut_ptr(), datagram.as_ptr(), datagram.len()) };
    meta
}

/// Whether the bytes and their checksum fit (RFC 1071), added to `sum`.
fn is_right(bytes: &[u8], mut sum: u64) -> bool {
    for word in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// The sum of the pseudo header of a TCP segment.
fn pseudo(addresses: &[u8], length: usize) -> u64 {
    let words = addresses.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
    words.sum::<u64>() + 6 + length as u64
}

/// Fuzz target: a virtio header and a frame as the kernel could give them to its card, in two parts; and the same bytes as a datagram that has
/// arrived.
///
/// # Panics
/// If the frames that the card makes are not the bytes that it was given, if their checksums are wrong, or if it writes anywhere else: the
/// faults that the fuzzer looks for.
pub fn fuzz_card(bytes: &[u8]) {
    let Some((meta, rest)) = bytes.split_first_chunk::<META>() else { return };
    let Some((split, frame)) = rest.split_first_chunk::<2>() else { return };
    assert_eq!(judge(frame)[0] & !VALID, 0);
    let split = usize::from(u16::from_le_bytes(*split)).min(frame.len());
    let [_, kind, _, _, size, high, start, above, ..] = *meta;
    let (size, start) =
        (usize::from(u16::from_ne_bytes([size, high])), usize::from(u16::from_ne_bytes([start, above])));
    // Each frame has its own headers.
    let made = frames(meta, frame, split, frame.len() * 200 + 200);
    let (cut, v4) = (kind & 0x7f != 0, kind & 0x7f == 1);
    if made.is_empty() {
        return;
    }
    if !cut {
        assert_eq!((made.len(), made[0].len()), (1, frame.len()));
        if meta[0] & NEEDED == 0 {
            assert_eq!(made[0], frame);
        }
        return;
    }
    let header = start + usize::from(frame[start + 12] >> 4) * 4;
    let payload: Vec<u8> = made.iter().flat_map(|frame| &frame[header..]).copied().collect();
    assert_eq!(payload, frame[header..]);
    for (number, own) in made.iter().enumerate() {
        assert!(own.len() <= header + size && (number + 1 == made.len() || own.len() == header + size));
        let (ip, tcp) = (&own[ETHERNET..], &own[start..]);
        let addresses = if v4 { &ip[12..IPV4] } else { &ip[8..IPV6] };
        assert!(is_right(tcp, pseudo(addresses, tcp.len())), "frame {number}");
        // The card on the other side agrees, unless it is a fragment, or TCP stands behind an extension header.
        let plain = if v4 {
            ip[0] >> 4 == 4 && [ip[6] & 0x3f, ip[7]] == [0, 0]
        } else {
            ip[0] >> 4 == 6 && ip[6] == 6
        };
        assert!(
            !plain || (!v4 && start != ETHERNET + IPV6) || ip.len() > 65_535 || judge(ip)[0] == VALID,
            "frame {number}"
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A segment with a number of bytes of payload, behind its virtio header and the length of its first part.
    fn segment(v4: bool, payload: &[u8], size: u16, split: u16) -> Vec<u8> {
        let (start, kind) = if v4 { (ETHERNET + IPV4, 1) } else { (ETHERNET + IPV6, 4) };
        let mut all = vec![NEEDED, kind, 0, 0];
        for number in [size, start as u16, 16, split] {
            all.extend(number.to_ne_bytes());
        }
        let mut frame = vec![0; start + 20];
        frame[12..14].copy_from_slice(if v4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
        frame[ETHERNET] = if v4 { 0x45 } else { 0x60 };
        frame[ETHERNET + if v4 { 9 } else { 6 }] = 6;
        frame[start + 12] = 5 << 4;
        all.extend(frame);
        all.extend(payload);
        all
    }

    #[test]
    fn a_segment_becomes_as_many_frames_as_it_needs() {
        for v4 in [true, false] {
            let all = segment(v4, &[7; 5000], 1000, 60);
            let (meta, rest) = all.split_first_chunk::<META>().unwrap();
            let made = frames(meta, &rest[2..], 60, 20_000);
            assert_eq!(made.len(), 5);
            fuzz_card(&all);
        }
    }

    proptest! {
        #[test]
        fn any_segment_is_cut_into_right_frames(
            v4: bool, payload in prop::collection::vec(any::<u8>(), 0..4000), size in 1u16..2000, split in 0u16..4000,
            changes in prop::collection::vec((0usize..90, any::<u8>()), 0..3),
        ) {
            let mut all = segment(v4, &payload, size, split);
            for (place, value) in changes {
                if let Some(byte) = all.get_mut(place) {
                    *byte = value;
                }
            }
            fuzz_card(&all);
        }

        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            fuzz_card(&bytes);
        }
    }
}
