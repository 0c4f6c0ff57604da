/* What a network card does, in one call: for tests in Rust (crates/guest/src/card.rs). */
#include "../card.h"

size_t card_frames(const unsigned char *meta, const unsigned char *bytes, size_t length, size_t split, unsigned char *to, size_t room,
                   uint32_t *lengths, size_t most);

/* Cuts what the kernel sends: a virtio header and bytes, given in two parts. Writes the frames one behind the other, and their lengths. Returns their
 * number; 0 if nothing can be sent, or not into this room. */
size_t card_frames(const unsigned char *meta, const unsigned char *bytes, size_t length, size_t split, unsigned char *to, size_t room,
                   uint32_t *lengths, size_t most)
{
    /* The driver's parts are of this type, but are only read. */
    const struct iovec parts[] = {{(void *)(uintptr_t)meta, CARD_META}, {(void *)(uintptr_t)bytes, split}, {(void *)(uintptr_t)(bytes + split), length - split}};
    struct cut cut;
    size_t count = 0, at = 0;
    if (!cut_begin(&cut, parts, 3))
        return 0;
    for (size_t next = cut_length(&cut); next > 0; next = cut_length(&cut)) {
        if (count == most || at + next > room)
            return 0;
        cut_next(&cut, to + at, 0);
        lengths[count] = (uint32_t)next;
        at += next;
        count++;
    }
    return count;
}
