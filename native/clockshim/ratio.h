/* Dilated time: from the host's clock to the guest's and back, without drift.
 *
 * The time dilation factor is a whole number of billionths. Instants are computed from the start of their segment, with 128 bits
 * in between: an error of rounding never adds up. Pure functions.
 */
#ifndef CLOCKSHIM_RATIO_H
#define CLOCKSHIM_RATIO_H

#include "page.h"

/* The span of guest time that passes in a span of host time, rounded down. */
uint64_t ratio_to_guest(uint64_t host_span, uint64_t tdf);
/* The span of host time after which that guest time has passed, rounded up: a timer never fires early. Saturates. */
uint64_t ratio_to_host(uint64_t guest_span, uint64_t tdf);
/* The guest's instant at a host's instant; host instants before the segment count as its start. */
uint64_t segment_guest(const struct segment *segment, uint64_t host);
/* The host's instant of a guest's instant. Saturates. */
uint64_t segment_host(const struct segment *segment, uint64_t guest);

/* The same over a change: of the two segments, the one that holds there. */
uint64_t pace_guest(const struct pace *pace, uint64_t host);
uint64_t pace_host(const struct pace *pace, uint64_t guest);

#endif
