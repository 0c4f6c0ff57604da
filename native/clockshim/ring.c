/* Frames in shared memory; see ring.h. */
#include "ring.h"

static uint32_t room(uint32_t length)
{
    return ((uint32_t)sizeof(struct record) + length + 15u) & ~15u;
}

static struct record *at(struct ring *ring, uint32_t position)
{
    return (struct record *)(void *)(ring->data + position % RING_BYTES);
}

struct record *ring_reserve(struct ring *ring, uint32_t length)
{
    uint32_t need = room(length), used = ring->head - ring->tail;
    uint32_t rest = RING_BYTES - ring->head % RING_BYTES;
    uint32_t skip = rest < need ? rest : 0;

    if (length > FRAME_MAX || used + skip + need > RING_BYTES)
        return NULL;
    if (skip) {
        at(ring, ring->head)->length = RING_SKIP;
        ring->head += skip;
    }
    struct record *record = at(ring, ring->head);
    record->length = length;
    record->unused = 0;
    return record;
}

void ring_commit(struct ring *ring, const struct record *record)
{
    ring->head += room(record->length);
}

struct record *ring_first(struct ring *ring)
{
    if (ring->head == ring->tail)
        return NULL;
    struct record *record = at(ring, ring->tail);
    if (record->length == RING_SKIP) {
        ring->tail += RING_BYTES - ring->tail % RING_BYTES;
        if (ring->head == ring->tail)
            return NULL;
        record = at(ring, ring->tail);
    }
    return record;
}

void ring_release(struct ring *ring, const struct record *record)
{
    ring->tail += room(record->length);
}
