//! What the kernel and a packet socket tell each other of a frame: `struct virtio_net_hdr` (`linux/virtio_net.h`).

/// Bytes of `struct virtio_net_hdr`.
pub(super) const VNET: usize = 10;
/// Flag: the checksum is still to be computed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
pub(super) const NEEDS_CSUM: u8 = 1;
/// The frame is to be cut into TCP segments over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`).
pub(super) const TCP_V4: u8 = 1;
/// The frame is to be cut into TCP segments over IPv6 (`VIRTIO_NET_HDR_GSO_TCPV6`).
pub(super) const TCP_V6: u8 = 4;
/// The frame is to be cut into UDP datagrams of one size (`VIRTIO_NET_HDR_GSO_UDP_L4`).
pub(super) const UDP_L4: u8 = 5;
/// The connection uses ECN: only the first packet has the flag CWR (`VIRTIO_NET_HDR_GSO_ECN`).
pub(super) const ECN: u8 = 0x80;
