/* Frames in shared memory: a ring with one writer and one reader. In dilated time both work at once.
 *
 * A record is a head and a frame, padded to 16 bytes, and does not wrap: what is left at the end of the ring is filled with
 * one whose length says so. Pure functions.
 *
 * "alone" means that the other side is not at work meanwhile, as in lock-step: then no notices are needed, and no memory barriers.
 */
#ifndef CLOCKSHIM_RING_H
#define CLOCKSHIM_RING_H

#include <stdbool.h>

#include "page.h"

struct record {
    uint32_t length; /* bytes of the frame; RING_SKIP: go on at the start of the ring */
    uint32_t unused;
    uint64_t time;   /* when it was sent, or arrives */
    unsigned char frame[];
};

#define RING_SKIP UINT32_MAX
/* Largest frame: that of the largest IP datagram. */
#define FRAME_MAX 65600u

/* Room for a frame of so many bytes at the end of the ring, to be filled and then given to ring_commit; NULL if it is full. */
struct record *ring_reserve(struct ring *ring, uint32_t length);
/* Makes a reserved record part of the ring. Returns whether the reader may have found the ring empty before, and waits for a notice:
 * never if alone. */
bool ring_commit(struct ring *ring, const struct record *record, bool alone);
/* The oldest record, NULL if there is none. */
struct record *ring_first(struct ring *ring);
/* Gives the oldest record's room back. */
void ring_release(struct ring *ring, const struct record *record, bool alone);

#endif
