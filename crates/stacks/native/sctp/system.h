/* What usrsctp has of the system that it runs on: a clock, timers, random numbers and memory, all of them ours. */

#ifndef SCTP_SYSTEM_H
#define SCTP_SYSTEM_H

#include <stdint.h>

#include "../warpline_stack.h"

#pragma GCC visibility push(hidden)

extern struct warpline_callbacks callbacks;

/* It is `time` now, in nanoseconds. Timers that are due act. */
void system_enter(uint64_t time);
/* When the next timer is due, in nanoseconds. WARPLINE_NEVER if there is none. */
uint64_t system_deadline(void);
/* Frees all that was allocated here and in usrsctp. */
void system_free(void);

#pragma GCC visibility pop

#endif
