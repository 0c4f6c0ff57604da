/* What a network card does for the kernel: it cuts large TCP segments into frames (TSO), and it computes and checks checksums.
 *
 * The kernel's frames have a virtio network header in front of them (struct virtio_net_hdr, linux/virtio_net.h). On the wire, in the rings,
 * are whole frames of at most the MTU. Frames are Ethernet without a VLAN tag. Pure functions: they use no state but their arguments.
 */
#ifndef CLOCKSHIM_CARD_H
#define CLOCKSHIM_CARD_H

#define _GNU_SOURCE

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Bytes of the virtio header. */
#define CARD_META 10u
/* Bytes of an Ethernet header. */
#define CARD_ETHERNET 14u
/* Headers of a frame, from the Ethernet header to the end of TCP's options, at most: with IPv4 14 + 60 + 60 bytes. With IPv6 there is room for
 * extension headers of 78 bytes. */
#define CARD_HEADERS 192u

/* A frame of the kernel that is being cut. */
struct cut {
    const struct iovec *parts;
    size_t count;
    size_t part, at;       /* the next byte of payload */
    size_t left;           /* bytes of payload that are left */
    size_t size;           /* bytes of payload in each frame */
    uint32_t frames;       /* frames made so far */
    uint16_t header;       /* bytes in front of the payload; each frame has them */
    uint16_t start;        /* where the checksum begins */
    uint16_t field;        /* where it stands, counted from there */
    uint8_t version;       /* of IP, if TCP is cut; 0 if there is one frame */
    bool sums;             /* whether to compute the checksum */
    unsigned char headers[CARD_HEADERS];
};

/* Begins to cut a frame: the virtio header is the first of the parts. Returns false if it cannot be sent. */
bool cut_begin(struct cut *cut, const struct iovec *parts, size_t count);
/* Bytes of the next frame; 0 if there is none. */
size_t cut_length(const struct cut *cut);
/* Writes the next frame, with `gap` bytes left free behind its MAC addresses. */
void cut_next(struct cut *cut, unsigned char *to, size_t gap);

/* What the kernel is told of a datagram that has arrived: a virtio header, which says whether the transport checksum has been found right. If it
 * was not, or if the datagram is neither TCP nor UDP or a fragment, the kernel checks it itself. */
void card_judge(unsigned char meta[CARD_META], const unsigned char *datagram, size_t length);

#endif
