/* The Internet checksum; see checksum.h.
 *
 * Sixteen bytes at once, as two pairs of 32-bit words (SSE2, which every x86-64 has): a sum of 32-bit words folds to the same 16 bits, and
 * 64 KiB of them do not overflow 64 bits.
 */
#include "checksum.h"

#include <arpa/inet.h>
#include <emmintrin.h>
#include <string.h>

static inline uint64_t add_or_copy(unsigned char *to, const unsigned char *bytes, size_t length)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i low = zero, high = zero;
    size_t at = 0;
    for (; at + 16 <= length; at += 16) {
        __m128i word = _mm_loadu_si128((const __m128i *)(const void *)(bytes + at));
        if (to)
            _mm_storeu_si128((__m128i *)(void *)(to + at), word);
        low = _mm_add_epi64(low, _mm_unpacklo_epi32(word, zero));
        high = _mm_add_epi64(high, _mm_unpackhi_epi32(word, zero));
    }
    low = _mm_add_epi64(low, high);
    uint64_t sums[2];
    _mm_storeu_si128((__m128i *)(void *)sums, low);
    uint64_t sum = sums[0] + sums[1];
    for (; at + 2 <= length; at += 2) {
        uint16_t word;
        memcpy(&word, bytes + at, sizeof word);
        sum += word;
        if (to)
            memcpy(to + at, &word, sizeof word);
    }
    if (at < length) {
        /* The last byte is the first of its word in memory. */
        sum += bytes[at];
        if (to)
            to[at] = bytes[at];
    }
    return sum;
}

static uint16_t fold(uint64_t sum)
{
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static void add(struct checksum *checksum, uint64_t sum, size_t length)
{
    uint16_t folded = fold(sum);
    /* Bytes at odd positions count the other way round. */
    checksum->sum += checksum->odd ? (uint16_t)(folded << 8 | folded >> 8) : folded;
    checksum->odd ^= length & 1;
}

void checksum_add(struct checksum *checksum, const unsigned char *bytes, size_t length)
{
    add(checksum, add_or_copy(NULL, bytes, length), length);
}

void checksum_copy(struct checksum *checksum, unsigned char *to, const unsigned char *bytes, size_t length)
{
    add(checksum, add_or_copy(to, bytes, length), length);
}

void checksum_add_pseudo(struct checksum *checksum, const unsigned char *addresses, size_t size, uint8_t protocol, uint32_t length)
{
    checksum_add(checksum, addresses, size);
    checksum->sum += (uint64_t)htons(protocol) + htons((uint16_t)(length >> 16)) + htons((uint16_t)length);
}

uint16_t checksum_fold(const struct checksum *checksum)
{
    return fold(checksum->sum);
}
