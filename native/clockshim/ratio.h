/* Dilated time: from the host's clock to the guest's and back, without drift.
 *
 * The time dilation factor is a whole number of billionths. Instants are computed from the start of their segment in 128 bits, so
 * rounding errors do not add up. Pure functions.
 */
#ifndef CLOCKSHIM_RATIO_H
#define CLOCKSHIM_RATIO_H

#include "page.h"

/* Guest time that passes in a span of host time, rounded down. */
uint64_t ratio_to_guest(uint64_t host_span, uint64_t tdf);
/* Host time in which this guest time has passed, rounded up so that a timer never fires early. Saturates. */
uint64_t ratio_to_host(uint64_t guest_span, uint64_t tdf);
/* The guest's instant at an instant of the host. Instants before the segment count as its start. */
uint64_t segment_guest(const struct segment *segment, uint64_t host);
/* The host's instant at an instant of the guest. Saturates. */
uint64_t segment_host(const struct segment *segment, uint64_t guest);

/* The same for a pace, with the segment that is valid at that instant. */
uint64_t pace_guest(const struct pace *pace, uint64_t host);
uint64_t pace_host(const struct pace *pace, uint64_t guest);

#endif
