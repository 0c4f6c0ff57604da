//! What the kernel and a packet socket tell each other of a frame: `struct virtio_net_hdr` (`linux/virtio_net.h`).

/// Its bytes.
pub(super) const VNET: usize = 10;
/// Flag: the checksum is still to be computed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
pub(super) const NEEDS_CSUM: u8 = 1;
/// What a large segment is to be cut into: TCP over IPv4 or IPv6, or UDP datagrams of one size (`VIRTIO_NET_HDR_GSO_*`).
pub(super) const TCP_V4: u8 = 1;
pub(super) const TCP_V6: u8 = 4;
pub(super) const UDP_L4: u8 = 5;
/// The connection uses ECN: only the first packet has the flag CWR (`VIRTIO_NET_HDR_GSO_ECN`).
pub(super) const ECN: u8 = 0x80;
