/* Segments of TCP over IPv4 as bytes: what the glue needs to know of libslirp's packets, and the few that it makes itself. */

#include "segment.h"

#include <arpa/inet.h>
#include <string.h>

#include "../ipv4.h"

/* The checksum of a segment with its pseudo-header (RFC 9293 section 3.1). */
static uint16_t checksum(const unsigned char *addresses, const unsigned char *segment, size_t len)
{
    const uint64_t begun = (uint64_t)htons(IPV4_TCP) + htons((uint16_t)len);
    return ipv4_fold(ipv4_sum(ipv4_sum(begun, addresses, 8), segment, len));
}

int segment_parse(struct segment *segment, const unsigned char *bytes, size_t len)
{
    const unsigned char *tcp;
    if (!ipv4_is_whole(bytes, len, &segment->ip_header, &segment->total) || bytes[9] != IPV4_TCP || segment->total < segment->ip_header + 20)
        return 0;
    tcp = bytes + segment->ip_header;
    segment->tcp_header = 4 * (tcp[12] >> 4);
    if (segment->tcp_header < 20 || segment->ip_header + segment->tcp_header > segment->total)
        return 0;
    segment->bytes = bytes;
    memcpy(&segment->from, bytes + 12, 4);
    memcpy(&segment->to, bytes + 16, 4);
    memcpy(&segment->from_port, tcp, 2);
    memcpy(&segment->to_port, tcp + 2, 2);
    segment->seq = get32(tcp + 4);
    segment->ack = get32(tcp + 8);
    segment->flags = tcp[13];
    segment->len = segment->total - segment->ip_header - segment->tcp_header;
    return 1;
}

int segment_is_right(const struct segment *segment)
{
    return checksum(segment->bytes + 12, segment->bytes + segment->ip_header, segment->total - segment->ip_header) == 0;
}

void segment_write(const struct segment *segment, unsigned char *packet)
{
    uint16_t sum16;
    memset(packet + IPV4_HEADER, 0, 20);
    ipv4_write(packet, IPV4_TCP, segment->from, segment->to, 20);
    memcpy(packet + 20, &segment->from_port, 2);
    memcpy(packet + 22, &segment->to_port, 2);
    put32(packet + 24, segment->seq);
    put32(packet + 28, segment->ack);
    packet[32] = 5 << 4;
    packet[33] = segment->flags;
    sum16 = checksum(packet + 12, packet + 20, 20);
    memcpy(packet + 36, &sum16, 2);
}

void segment_clear_options(const struct segment *segment, unsigned char *packet)
{
    unsigned char *tcp = packet + segment->ip_header, *options = tcp + 20;
    const size_t len = segment->tcp_header - 20;
    uint16_t sum16;
    uint64_t changed;
    /* Only by the difference: what was wrong before stays wrong (RFC 1624). */
    memcpy(&sum16, tcp + 16, 2);
    changed = (uint16_t)~sum16;
    for (size_t i = 0; i < len; i += 2) {
        uint16_t before, after;
        memcpy(&before, options + i, 2);
        memset(options + i, 1, 2);
        memcpy(&after, options + i, 2);
        changed += (uint64_t)(uint16_t)~before + after;
    }
    sum16 = ipv4_fold(changed);
    memcpy(tcp + 16, &sum16, 2);
}
