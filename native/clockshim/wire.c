/* Devices besides the first; see wire.h. */
#include "wire.h"

#include <string.h>

#include "card.h"

/* Bytes of a tag, which stands behind the MAC addresses, and of a header without one. */
#define ADDRESSES WIRE_ADDRESSES
#define TAG 4u
#define HEADER 14u
#define TAGGED 0x8100u
#define SECOND 1000000000ull

/* The wire of each device: when it is free, and what remains of its last transmission, in units of 1/rate ns. The simulated link behind it
 * counts the same way (crates/net/src/serialise.rs), so it is free at the same instants. And whether a frame waits for it, and what its device
 * asked last. */
static struct {
    uint64_t free;
    uint64_t remainder;
    bool waits;
    uint64_t asked;
} wires[1 + DEVICES];

static const struct device *settings(unsigned device)
{
    return &page->devices[device - 1];
}

int wire_of(int fd)
{
    for (unsigned i = 0; i < DEVICES && page->devices[i].fd != 0; i++)
        if (page->devices[i].fd == fd)
            return (int)i + 1;
    return -1;
}

unsigned wire_owner(const struct record *record)
{
    if (page->devices[0].fd == 0 || record->length < ADDRESSES + TAG)
        return 0;
    const unsigned char *tag = record->frame + ADDRESSES;
    if ((tag[0] << 8 | tag[1]) != TAGGED)
        return 0;
    uint32_t vlan = (uint32_t)(tag[2] << 8 | tag[3]) & 0xfff;
    for (unsigned i = 0; i < DEVICES && page->devices[i].fd != 0; i++)
        if (page->devices[i].vlan == vlan)
            return i + 1;
    return 0;
}

size_t wire_tag(unsigned device)
{
    return device == 0 ? 0 : TAG;
}

bool wire_is_card(unsigned device)
{
    return device > 0 && settings(device)->card != 0;
}

void wire_write_tag(unsigned device, unsigned char *to)
{
    uint32_t vlan = settings(device)->vlan;
    const unsigned char bytes[TAG] = {TAGGED >> 8, TAGGED & 0xff, (unsigned char)(vlan >> 8), (unsigned char)vlan};
    memcpy(to, bytes, TAG);
}

void wire_occupy(unsigned device, uint64_t start, size_t length)
{
    if (device == 0 || length < HEADER + TAG)
        return;
    const struct device *own = settings(device);
    if (own->rate == 0)
        return;
    uint64_t bytes = length - TAG - HEADER + own->framing;
    /* Frames are below 2^17 bytes, so this is below 2^50. */
    uint64_t work = bytes * 8 * SECOND;
    wires[device].waits = false;
    if (wires[device].free < start)
        wires[device].remainder = 0;
    else
        start = wires[device].free;
    wires[device].remainder += work % own->rate;
    wires[device].free = start + work / own->rate;
    if (wires[device].remainder >= own->rate) {
        wires[device].remainder -= own->rate;
        wires[device].free++;
    }
}

void wire_write(unsigned device, struct record *record, const struct iovec *parts, size_t count)
{
    size_t tag = wire_tag(device), at = tag;
    for (size_t i = 0; i < count; i++) {
        memcpy(record->frame + at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    if (tag == 0 || at < HEADER + tag)
        return;
    memmove(record->frame, record->frame + tag, ADDRESSES);
    wire_write_tag(device, record->frame + ADDRESSES);
}

/* Copies bytes into parts from position `at` on, as far as there is room; returns the position behind them. */
static size_t scatter(const struct iovec *parts, size_t count, size_t at, const unsigned char *bytes, size_t length)
{
    size_t start = 0, done = 0;
    for (size_t i = 0; i < count && done < length; i++) {
        size_t end = start + parts[i].iov_len, from = at + done;
        if (from < end) {
            size_t part = length - done < end - from ? length - done : end - from;
            if (parts[i].iov_base)
                memcpy((unsigned char *)parts[i].iov_base + (from - start), bytes + done, part);
            done += part;
        }
        start = end;
    }
    return at + done;
}

ssize_t wire_read(unsigned device, const struct record *record, const struct iovec *parts, size_t count)
{
    if (device == 0)
        return (ssize_t)scatter(parts, count, 0, record->frame, record->length);
    size_t at = 0, rest = ADDRESSES + TAG;
    if (wire_is_card(device)) {
        unsigned char meta[CARD_META];
        size_t datagram = rest + HEADER - ADDRESSES;
        /* Frames of a device have a tag (wire_owner), but may end behind it. */
        card_judge(meta, record->frame + datagram, record->length > datagram ? record->length - datagram : 0);
        at = scatter(parts, count, 0, meta, CARD_META);
    }
    at = scatter(parts, count, at, record->frame, ADDRESSES);
    return (ssize_t)scatter(parts, count, at, record->frame + rest, record->length - rest);
}

uint64_t wire_free(unsigned device)
{
    return wires[device].free;
}

bool wire_asks(unsigned device, uint64_t question)
{
    bool again = wires[device].waits && wires[device].asked == question;
    wires[device].waits = true;
    wires[device].asked = question;
    return !again;
}

uint64_t wire_next(uint64_t now)
{
    uint64_t next = NEVER;
    for (unsigned i = 1; i <= DEVICES && page->devices[i - 1].fd != 0; i++)
        if (wires[i].waits && wires[i].free > now && wires[i].free < next)
            next = wires[i].free;
    return next;
}
