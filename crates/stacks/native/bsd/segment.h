/* Segments of TCP over IPv4 as bytes: what the glue needs to know of libslirp's packets, and the few that it makes itself. */

#ifndef BSD_SEGMENT_H
#define BSD_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Flags (RFC 9293 section 3.1). */
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };

struct segment {
    /* Addresses and ports in network byte order; all else in the machine's. */
    uint32_t from, to;
    uint16_t from_port, to_port;
    uint32_t seq, ack;
    uint8_t flags;
    /* Bytes of payload. */
    size_t len;
    /* The packet, its length, and the lengths of its headers. */
    const unsigned char *bytes;
    size_t total, ip_header, tcp_header;
};

/* Reads a packet. Returns whether it is a whole segment. */
int segment_parse(struct segment *segment, const unsigned char *bytes, size_t len);
/* Whether the checksum of a segment is right. */
int segment_is_right(const struct segment *segment);
/* Writes a segment of 40 bytes without options and payload. */
void segment_write(const struct segment *segment, unsigned char *packet);
/* Writes no-operations over the options of a segment, of which `packet` is a copy; the checksum changes with them. */
void segment_clear_options(const struct segment *segment, unsigned char *packet);

#pragma GCC visibility pop

#endif
