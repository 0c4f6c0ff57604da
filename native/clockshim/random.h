/* The guest's entropy in lock-step: SplitMix64 (Steele, Lea, Flood 2014), from the run's seed. Pure functions. */
#ifndef CLOCKSHIM_RANDOM_H
#define CLOCKSHIM_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The next 64 bits. */
uint64_t random_next(uint64_t *state);
/* Fills a buffer. */
void random_fill(uint64_t *state, void *buffer, size_t length);

#endif
