//! Frames of a guest's network device: an IP datagram behind an Ethernet header with a VLAN tag (IEEE 802.1Q), which identifies
//! the host.

/// Bytes before the datagram.
pub const HEADER: usize = 18;
/// VLANs that hosts can have: 0 and 4095 are reserved (IEEE 802.1Q section 9.6).
pub const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

const TAGGED: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// The MAC address of the host with that VLAN: locally administered (IEEE 802), the VLAN at its end.
pub fn mac(vlan: u16) -> [u8; 6] {
    let [high, low] = vlan.to_be_bytes();
    [2, 0, 0, 0, high, low]
}

/// The header of a datagram for the host with that VLAN. Its source is the host itself: hosts do not resolve MAC addresses, and send to
/// their own.
pub fn header(vlan: u16, datagram: &[u8]) -> [u8; HEADER] {
    let mac = mac(vlan);
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&mac);
    header[6..12].copy_from_slice(&[2, 0, 0, 1, mac[4], mac[5]]);
    header[12..14].copy_from_slice(&TAGGED);
    header[14..16].copy_from_slice(&vlan.to_be_bytes());
    let version = datagram.first().map_or(4, |byte| byte >> 4);
    header[16..].copy_from_slice(if version == 6 { &IPV6 } else { &IPV4 });
    header
}

/// The VLAN of a frame that a guest has sent, and the IP datagram in it; `None` for anything else.
pub fn parse(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (header, datagram) = frame.split_at_checked(HEADER)?;
    let kind = [header[16], header[17]];
    if header[12..14] != TAGGED || (kind != IPV4 && kind != IPV6) {
        return None;
    }
    // The upper bits are a priority.
    Some((u16::from_be_bytes([header[14], header[15]]) & 0x0fff, datagram))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn framed_datagrams_are_read_back(vlan in VLANS, version in prop::sample::select(vec![0x45u8, 0x60]), rest: Vec<u8>) {
            let mut datagram = vec![version];
            datagram.extend(rest);
            let mut frame = header(vlan, &datagram).to_vec();
            frame.extend(&datagram);
            prop_assert_eq!(parse(&frame), Some((vlan, &datagram[..])));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            if let Some((vlan, datagram)) = parse(&bytes) {
                prop_assert!(vlan < 4096 && datagram.len() + HEADER == bytes.len());
            }
        }
    }

    #[test]
    fn frames_without_a_tag_or_of_another_protocol_are_refused() {
        let mut frame = header(7, &[0x45]).to_vec();
        frame.push(0x45);
        assert!(parse(&frame).is_some());
        frame[17] = 0x06; // ARP
        assert_eq!(parse(&frame), None);
        frame[17] = 0x00;
        frame[12] = 0x08;
        assert_eq!(parse(&frame), None);
        assert_eq!(parse(&frame[..17]), None);
    }
}
