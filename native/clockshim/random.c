/* The guest's entropy in lock-step; see random.h. */
#include "random.h"

#include <string.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void random_fill(uint64_t *state, void *buffer, size_t length)
{
    unsigned char *to = buffer;
    while (length > 0) {
        uint64_t bits = random_next(state);
        size_t part = length < sizeof bits ? length : sizeof bits;
        memcpy(to, &bits, part);
        to += part;
        length -= part;
    }
}
