/* Datagrams of IPv4 as bytes (ipv4.h). */

#include "ipv4.h"

#include <string.h>

enum { HOPS = 64, ICMP_ECHO = 8 };

uint64_t ipv4_sum(uint64_t begun, const unsigned char *bytes, size_t len)
{
    uint32_t word;
    /* Four bytes at a time. */
    for (; len >= 4; len -= 4, bytes += 4) {
        memcpy(&word, bytes, 4);
        begun += word;
    }
    word = 0;
    memcpy(&word, bytes, len);
    return begun + word;
}

uint16_t ipv4_fold(uint64_t value)
{
    value = (value >> 32) + (value & 0xffffffff);
    while (value >> 16 != 0)
        value = (value >> 16) + (value & 0xffff);
    return (uint16_t)~value;
}

int ipv4_is_whole(const unsigned char *bytes, size_t len, size_t *header, size_t *total)
{
    if (len < IPV4_HEADER || bytes[0] >> 4 != 4)
        return 0;
    *header = 4 * (bytes[0] & 15u);
    *total = get16(bytes + 2);
    return *header >= IPV4_HEADER && *total >= *header && *total <= len && (get16(bytes + 6) & 0x3fff) == 0;
}

void ipv4_write(unsigned char *header, uint8_t protocol, uint32_t from, uint32_t to, size_t len)
{
    memset(header, 0, IPV4_HEADER);
    header[0] = 0x45;
    put16(header + 2, (uint32_t)(IPV4_HEADER + len));
    header[8] = HOPS;
    header[9] = protocol;
    memcpy(header + 12, &from, 4);
    memcpy(header + 16, &to, 4);
    ipv4_check(header);
}

void ipv4_check(unsigned char *header)
{
    uint16_t sum;
    memset(header + 10, 0, 2);
    sum = ipv4_fold(ipv4_sum(0, header, IPV4_HEADER));
    memcpy(header + 10, &sum, 2);
}

size_t ipv4_echo(unsigned char *reply, const unsigned char *bytes, size_t len, uint32_t own)
{
    size_t header, total;
    uint16_t sum;
    if (!ipv4_is_whole(bytes, len, &header, &total) || bytes[9] != IPV4_ICMP || total < header + 8 || bytes[header] != ICMP_ECHO ||
        memcmp(bytes + 16, &own, 4) != 0 || ipv4_fold(ipv4_sum(0, bytes + header, total - header)) != 0)
        return 0;
    memcpy(reply, bytes, total);
    memcpy(reply + 12, bytes + 16, 4);
    memcpy(reply + 16, bytes + 12, 4);
    reply[8] = HOPS;
    memset(reply + 10, 0, 2);
    sum = ipv4_fold(ipv4_sum(0, reply, header));
    memcpy(reply + 10, &sum, 2);
    reply[header] = 0;
    memset(reply + header + 2, 0, 2);
    sum = ipv4_fold(ipv4_sum(0, reply + header, total - header));
    memcpy(reply + header + 2, &sum, 2);
    return total;
}
