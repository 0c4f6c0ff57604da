/* Datagrams of IPv4 (RFC 791) as bytes, for stacks that know nothing of them. */

#ifndef WARPLINE_IPV4_H
#define WARPLINE_IPV4_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { IPV4_HEADER = 20, IPV4_ICMP = 1, IPV4_TCP = 6, IPV4_SCTP = 132 };

/* Numbers in the order of the network. */
static inline uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t get32(const unsigned char *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static inline void put16(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static inline void put32(unsigned char *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}

/* Adds to a sum of 16-bit words in the order of memory (RFC 1071). */
uint64_t ipv4_sum(uint64_t begun, const unsigned char *bytes, size_t len);
/* The checksum of a sum, in the order of memory. */
uint16_t ipv4_fold(uint64_t sum);
/* Whether these are bytes of a whole datagram, which is no fragment; then with the length of its header, and its own. */
int ipv4_is_whole(const unsigned char *bytes, size_t len, size_t *header, size_t *total);
/* Writes a header for `len` bytes of payload, between addresses in network byte order. All fields that are not named are 0. */
void ipv4_write(unsigned char *header, uint8_t protocol, uint32_t from, uint32_t to, size_t len);
/* Writes the checksum of a header without options again, after a field has changed. */
void ipv4_check(unsigned char *header);
/* Writes the answer to a ping (RFC 792) for the address `own`. Returns its length; 0 if the datagram is none. */
size_t ipv4_echo(unsigned char *reply, const unsigned char *bytes, size_t len, uint32_t own);

#pragma GCC visibility pop

#endif
