/* Fields of headers on the wire: where they are, and numbers in network byte order. Pure functions. */
#ifndef CLOCKSHIM_BYTES_H
#define CLOCKSHIM_BYTES_H

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

/* Types of Ethernet frames. */
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu
/* Bytes of headers without options, and where TCP's and UDP's checksums stand in them (RFC 791, RFC 8200, RFC 9293, RFC 768). */
#define IPV4_HEADER 20u
#define IPV6_HEADER 40u
#define TCP_HEADER 20u
#define TCP_CHECKSUM 16u
#define UDP_HEADER 8u
#define UDP_CHECKSUM 6u
/* Flags in the 14th byte of TCP's header. */
#define TCP_FIN 0x01u
#define TCP_SYN 0x02u
#define TCP_RST 0x04u
#define TCP_PSH 0x08u
#define TCP_URG 0x20u
#define TCP_CWR 0x80u

static inline uint16_t read16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return ntohs(value);
}

static inline uint32_t read32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return ntohl(value);
}

static inline void write16(unsigned char *at, uint16_t value)
{
    value = htons(value);
    memcpy(at, &value, sizeof value);
}

static inline void write32(unsigned char *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, sizeof value);
}

#endif
