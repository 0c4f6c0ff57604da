/* Packets of SCTP over IPv4 as bytes: what the glue needs to know of them. */

#ifndef SCTP_PACKET_H
#define SCTP_PACKET_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Bytes of SCTP's header, and of the head of a DATA chunk (RFC 9260 sections 3.1 and 3.3.1). */
enum { SCTP_HEADER = 12, SCTP_DATA_HEADER = 16 };

/* What is inside a datagram. Addresses are in network byte order; all else is in the machine's. */
struct packet {
    uint32_t from, to;
    uint16_t from_port, to_port;
    /* The verification tag. */
    uint32_t tag;
    /* The ECN field of its datagram. */
    uint8_t ecn;
    /* From the header of SCTP on. */
    const unsigned char *bytes;
    size_t len;
};

/* What a chunk says that matters here. */
struct chunk {
    enum { CHUNK_OTHER, CHUNK_DATA, CHUNK_ACK, CHUNK_INIT } kind;
    /* DATA: its TSN; an acknowledgement: the last TSN of those that have all arrived; INIT: its initiate tag. */
    uint32_t number;
    /* DATA: bytes of payload, and their protocol identifier. */
    size_t len;
    uint32_t protocol;
};

/* Reads the header at `bytes`, which is SCTP's. Returns whether there is a whole one. */
int packet_read(struct packet *packet, const unsigned char *bytes, size_t len);
/* Reads a datagram. Returns whether it has a whole packet of SCTP in it, with the right checksum. Its field for that is 0 meanwhile. */
int packet_parse(struct packet *packet, unsigned char *bytes, size_t len);
/* Writes the checksum of a packet, whose field for it is 0. */
void packet_check(unsigned char *bytes, size_t len);
/* Reads the chunk at `at`, which begins at SCTP_HEADER, and moves on. Returns whether there is one. */
int packet_next(const struct packet *packet, size_t *at, struct chunk *chunk);

#pragma GCC visibility pop

#endif
