/* What a network card does for the kernel: it cuts large TCP segments into frames and computes checksums (TSO, checksum offload), and it checks
 * and merges the frames that have arrived (what Linux calls hardware GRO).
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

/* A message that has been given a frame, and may get the payload of more. */
struct held {
    struct msghdr *message;
    unsigned char *datagram; /* where the headers of its IP datagram are, contiguous; NULL if the frame is not TCP */
    size_t part, at;         /* where the next byte goes */
    size_t room;             /* bytes that it can still take */
    uint32_t length;         /* bytes of the datagram */
    uint32_t size;           /* bytes of payload in its first frame */
    uint32_t frames;         /* frames in it */
    uint32_t sequence;       /* the TCP sequence number that comes next */
    uint16_t start, header;  /* of the datagram: where TCP and where its payload begin */
    uint16_t identification; /* of its first frame (IPv4) */
    uint8_t flags;           /* TCP's flags FIN and PSH of its last frame */
    bool sound;              /* its checksums are right */
    bool open;               /* another frame may be added */
};

/* Messages that are given at one time, at most. */
#define MERGE_MOST 64u

struct merge {
    struct mmsghdr *messages;
    size_t count;  /* messages that there are */
    size_t used;
    struct held held[MERGE_MOST];
};

void merge_begin(struct merge *merge, struct mmsghdr *messages, size_t count);
/* Gives a frame that has arrived: adds its payload to a message, or takes a message for it. `ethernet` are its MAC addresses and its type, in two
 * pieces of 12 and 2 bytes; `datagram` is the rest. Returns false if no message is left. */
bool merge_add(struct merge *merge, const unsigned char *addresses, const unsigned char *type, const unsigned char *datagram, size_t length);
/* Writes the lengths and virtio headers of all messages. Returns their number. */
size_t merge_end(struct merge *merge);

#endif
