/* Frames in shared memory: a ring with one writer and one reader. In dilated time both work at once.
 *
 * A record is a head and a frame, padded to 16 bytes. It does not wrap: a record of length RING_SKIP fills what is left at the end of the
 * ring. Pure functions.
 *
 * "alone" means that the other side does not work meanwhile, as in lock-step. Then nothing is notified, and the processor need not wait
 * until writes are visible.
 */
#ifndef CLOCKSHIM_RING_H
#define CLOCKSHIM_RING_H

#include <stdbool.h>

#include "page.h"

struct record {
    uint32_t length; /* bytes of the frame; RING_SKIP: continue at the start of the ring */
    uint32_t unused;
    uint64_t time;   /* when it was sent, or arrives */
    unsigned char frame[];
};

#define RING_SKIP UINT32_MAX
/* Largest frame: that of the largest IP datagram. */
#define FRAME_MAX 65600u

/* Reserves room for a frame of this length, to be filled in and then passed to ring_commit. NULL if the ring is full. */
struct record *ring_reserve(struct ring *ring, uint32_t length);
/* Makes a reserved record part of the ring. Returns whether to notify the reader, because it may have found the ring empty; never if
 * alone. */
bool ring_commit(struct ring *ring, const struct record *record, bool alone);
/* The oldest record, NULL if there is none. */
struct record *ring_first(struct ring *ring);
/* Frees the room of the oldest record. */
void ring_release(struct ring *ring, const struct record *record, bool alone);

#endif
