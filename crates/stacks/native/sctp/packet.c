/* Packets of SCTP over IPv4 as bytes (packet.h). */

#include "packet.h"

#include <string.h>

#include <usrsctp.h>

#include "../ipv4.h"

/* Types of chunks (RFC 9260 section 3.2), and the length of a chunk's head. */
enum { DATA = 0, INIT = 1, SACK = 3, SHUTDOWN = 7, CHUNK_HEADER = 4 };

int packet_read(struct packet *packet, const unsigned char *bytes, size_t len)
{
    if (len < SCTP_HEADER)
        return 0;
    packet->from_port = get16(bytes);
    packet->to_port = get16(bytes + 2);
    packet->tag = get32(bytes + 4);
    packet->bytes = bytes;
    packet->len = len;
    return 1;
}

#ifdef __x86_64__
/* CRC32c (RFC 9260 appendix A) by the processor's instruction for it: usrsctp, with tables, spends 40 % of its time on that. */
__attribute__((target("sse4.2"))) static uint32_t crc32c_of_processor(const unsigned char *bytes, size_t len)
{
    uint64_t crc = UINT32_MAX, word;
    for (; len >= 8; len -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; len > 0; len--, bytes++)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *bytes);
    return ~(uint32_t)crc;
}
#endif

static uint32_t crc32c(unsigned char *bytes, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_of_processor(bytes, len);
#endif
    return usrsctp_crc32c(bytes, len);
}

void packet_check(unsigned char *bytes, size_t len)
{
    const uint32_t sum = crc32c(bytes, len);
    memcpy(bytes + 8, &sum, 4);
}

int packet_parse(struct packet *packet, unsigned char *bytes, size_t len)
{
    size_t header, total;
    unsigned char given[4], *own;
    int is_right;
    if (!ipv4_is_whole(bytes, len, &header, &total) || bytes[9] != IPV4_SCTP || !packet_read(packet, bytes + header, total - header))
        return 0;
    memcpy(&packet->from, bytes + 12, 4);
    memcpy(&packet->to, bytes + 16, 4);
    packet->ecn = bytes[1] & 3;
    own = bytes + header;
    memcpy(given, own + 8, 4);
    memset(own + 8, 0, 4);
    packet_check(own, packet->len);
    is_right = memcmp(given, own + 8, 4) == 0;
    memcpy(own + 8, given, 4);
    return is_right;
}

int packet_next(const struct packet *packet, size_t *at, struct chunk *chunk)
{
    const unsigned char *bytes = packet->bytes + *at;
    size_t len;
    if (packet->len < *at + CHUNK_HEADER)
        return 0;
    len = get16(bytes + 2);
    if (len < CHUNK_HEADER || len > packet->len - *at)
        return 0;
    *at += (len + 3) & ~(size_t)3;
    memset(chunk, 0, sizeof *chunk);
    if (bytes[0] == DATA && len >= SCTP_DATA_HEADER) {
        chunk->kind = CHUNK_DATA;
        chunk->number = get32(bytes + 4);
        chunk->len = len - SCTP_DATA_HEADER;
        chunk->protocol = get32(bytes + 12);
    } else if ((bytes[0] == SACK || bytes[0] == SHUTDOWN) && len >= CHUNK_HEADER + 4) {
        chunk->kind = CHUNK_ACK;
        chunk->number = get32(bytes + 4);
    } else if (bytes[0] == INIT && len >= CHUNK_HEADER + 4) {
        chunk->kind = CHUNK_INIT;
        chunk->number = get32(bytes + 4);
    }
    return 1;
}
