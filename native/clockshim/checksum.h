/* The Internet checksum (RFC 1071) of bytes in several pieces, also while they are copied. Pure functions. */
#ifndef CLOCKSHIM_CHECKSUM_H
#define CLOCKSHIM_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A sum of 16-bit words in the machine's byte order, which gives the same checksum (RFC 1071 section 2), not yet folded. */
struct checksum {
    uint64_t sum;
    bool odd; /* whether the next byte is the second of its word */
};

/* Adds bytes, at most 64 KiB at once. */
void checksum_add(struct checksum *checksum, const unsigned char *bytes, size_t length);
/* The same, and copies them to `to`, which may not overlap them. */
void checksum_copy(struct checksum *checksum, unsigned char *to, const unsigned char *bytes, size_t length);
/* Adds the pseudo header of a transport segment: `addresses` are the source and the destination, of `size` bytes together (RFC 9293 section
 * 3.1, RFC 8200 section 8.1). Before any other bytes. */
void checksum_add_pseudo(struct checksum *checksum, const unsigned char *addresses, size_t size, uint8_t protocol, uint32_t length);
/* The sum, folded to 16 bits, as it stands in memory; its complement is the checksum. 0xffff if the bytes contain their own right checksum. */
uint16_t checksum_fold(const struct checksum *checksum);

#endif
