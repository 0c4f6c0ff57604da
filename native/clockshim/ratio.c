/* Dilated time; see ratio.h. */
#include "ratio.h"

#include <stdbool.h>

#define BILLION 1000000000ull

typedef unsigned __int128 wide;

static uint64_t saturate(wide value)
{
    return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

uint64_t ratio_to_guest(uint64_t host_span, uint64_t tdf)
{
    return saturate((wide)host_span * BILLION / tdf);
}

uint64_t ratio_to_host(uint64_t guest_span, uint64_t tdf)
{
    return saturate(((wide)guest_span * tdf + BILLION - 1) / BILLION);
}

uint64_t segment_guest(const struct segment *segment, uint64_t host)
{
    uint64_t span = host > segment->host0 ? host - segment->host0 : 0;
    return saturate((wide)segment->guest0 + ratio_to_guest(span, segment->tdf));
}

uint64_t segment_host(const struct segment *segment, uint64_t guest)
{
    uint64_t span = guest > segment->guest0 ? guest - segment->guest0 : 0;
    return saturate((wide)segment->host0 + ratio_to_host(span, segment->tdf));
}

uint64_t pace_guest(const struct pace *pace, uint64_t host)
{
    return segment_guest(host >= pace->next.host0 ? &pace->next : &pace->current, host);
}

uint64_t pace_host(const struct pace *pace, uint64_t guest)
{
    bool after = pace->next.host0 != NEVER && guest >= pace->next.guest0;
    return segment_host(after ? &pace->next : &pace->current, guest);
}
