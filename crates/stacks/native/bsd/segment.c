/* Segments of TCP over IPv4 as bytes: what the glue needs to know of libslirp's packets, and the few that it makes itself. */

#include "segment.h"

#include <arpa/inet.h>
#include <string.h>

enum { IP_TCP = 6, IP_ICMP = 1, ICMP_ECHO = 8 };

static uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static void put16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static void put32(unsigned char *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}

/* Adds to a sum of 16-bit words in the order of memory (RFC 1071), with four bytes at a time. */
static uint64_t sum(uint64_t begun, const unsigned char *bytes, size_t len)
{
    uint32_t word;
    for (; len >= 4; len -= 4, bytes += 4) {
        memcpy(&word, bytes, 4);
        begun += word;
    }
    word = 0;
    memcpy(&word, bytes, len);
    return begun + word;
}

/* The checksum of a sum, in the order of memory. */
static uint16_t fold(uint64_t value)
{
    value = (value >> 32) + (value & 0xffffffff);
    while (value >> 16 != 0)
        value = (value >> 16) + (value & 0xffff);
    return (uint16_t)~value;
}

/* The checksum of a segment with its pseudo-header (RFC 9293 section 3.1). */
static uint16_t checksum(const unsigned char *addresses, const unsigned char *segment, size_t len)
{
    const uint64_t begun = (uint64_t)htons(IP_TCP) + htons((uint16_t)len);
    return fold(sum(sum(begun, addresses, 8), segment, len));
}

/* Whether these are bytes of a whole packet of IPv4; then with the length of its header, and its own. */
static int is_packet(const unsigned char *bytes, size_t len, size_t *header, size_t *total)
{
    if (len < 20 || bytes[0] >> 4 != 4)
        return 0;
    *header = 4 * (bytes[0] & 15u);
    *total = get16(bytes + 2);
    /* No fragment. */
    return *header >= 20 && *total >= *header && *total <= len && (get16(bytes + 6) & 0x3fff) == 0;
}

int segment_parse(struct segment *segment, const unsigned char *bytes, size_t len)
{
    const unsigned char *tcp;
    if (!is_packet(bytes, len, &segment->ip_header, &segment->total) || bytes[9] != IP_TCP || segment->total < segment->ip_header + 20)
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
    memset(packet, 0, 40);
    packet[0] = 0x45;
    put16(packet + 2, 40);
    packet[8] = 64;
    packet[9] = IP_TCP;
    memcpy(packet + 12, &segment->from, 4);
    memcpy(packet + 16, &segment->to, 4);
    sum16 = fold(sum(0, packet, 20));
    memcpy(packet + 10, &sum16, 2);
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
    sum16 = fold(changed);
    memcpy(tcp + 16, &sum16, 2);
}

size_t segment_echo(unsigned char *reply, const unsigned char *bytes, size_t len, uint32_t own)
{
    size_t header, total;
    uint16_t sum16;
    if (!is_packet(bytes, len, &header, &total) || bytes[9] != IP_ICMP || total < header + 8 || bytes[header] != ICMP_ECHO ||
        memcmp(bytes + 16, &own, 4) != 0 || fold(sum(0, bytes + header, total - header)) != 0)
        return 0;
    memcpy(reply, bytes, total);
    memcpy(reply + 12, bytes + 16, 4);
    memcpy(reply + 16, bytes + 12, 4);
    reply[8] = 64;
    memset(reply + 10, 0, 2);
    sum16 = fold(sum(0, reply, header));
    memcpy(reply + 10, &sum16, 2);
    reply[header] = 0;
    memset(reply + header + 2, 0, 2);
    sum16 = fold(sum(0, reply + header, total - header));
    memcpy(reply + header + 2, &sum16, 2);
    return total;
}
