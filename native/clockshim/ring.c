/* Frames in shared memory; see ring.h. */
#include "ring.h"

static uint32_t room(uint32_t length)
{
    return ((uint32_t)sizeof(struct record) + length + 15u) & ~15u;
}

/* Where a position is in the ring, whose size is a power of two. */
static uint32_t place(const struct ring *ring, uint32_t position)
{
    return position & (ring->bytes - 1);
}

static struct record *at(struct ring *ring, uint32_t position)
{
    return (struct record *)(void *)(ring->data + place(ring, position));
}

/* Each position is written by one side. A side that reads the other's position also sees everything that the other wrote before it. On
 * both sides, the store of one's own position comes before the load of the other's, so a reader that finds nothing is notified of the
 * next frame. */
static uint32_t other(const uint32_t *position)
{
    return __atomic_load_n(position, __ATOMIC_SEQ_CST);
}

static void move(uint32_t *position, uint32_t to)
{
    __atomic_store_n(position, to, __ATOMIC_SEQ_CST);
}

struct record *ring_reserve(struct ring *ring, uint32_t length)
{
    uint32_t need = room(length), used = ring->head - other(&ring->tail);
    uint32_t rest = ring->bytes - place(ring, ring->head);
    uint32_t skip = rest < need ? rest : 0;

    if (length > FRAME_MAX || used + skip + need > ring->bytes)
        return NULL;
    if (skip) {
        at(ring, ring->head)->length = RING_SKIP;
        move(&ring->head, ring->head + skip);
    }
    struct record *record = at(ring, ring->head);
    record->length = length;
    record->unused = 0;
    return record;
}

bool ring_commit(struct ring *ring, const struct record *record, bool alone)
{
    uint32_t start = ring->head, need = room(record->length);
    if (alone) {
        __atomic_store_n(&ring->head, start + need, __ATOMIC_RELEASE);
        return false;
    }
    move(&ring->head, start + need);
    uint32_t left = start + need - other(&ring->tail);
    /* At the start of the ring, the record may follow a RING_SKIP record. */
    uint32_t skipped = place(ring, start) == 0 ? room(FRAME_MAX) : 0;
    return left <= need + skipped;
}

struct record *ring_first(struct ring *ring)
{
    uint32_t head = other(&ring->head);
    if (head == ring->tail)
        return NULL;
    struct record *record = at(ring, ring->tail);
    if (record->length == RING_SKIP) {
        move(&ring->tail, ring->tail + ring->bytes - place(ring, ring->tail));
        if (other(&ring->head) == ring->tail)
            return NULL;
        record = at(ring, ring->tail);
    }
    return record;
}

void ring_release(struct ring *ring, const struct record *record, bool alone)
{
    uint32_t to = ring->tail + room(record->length);
    if (alone)
        __atomic_store_n(&ring->tail, to, __ATOMIC_RELEASE);
    else
        move(&ring->tail, to);
}
