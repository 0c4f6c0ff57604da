/* The time-stamp counter, read by the instructions rdtsc and rdtscp (Intel SDM, volume 2B; AMD64 APM, volume 3).
 *
 * Programs read it without asking their kernel, so it would tell them the machine's time. The host can forbid it (prctl(2), PR_SET_TSC): then
 * the program stops with SIGSEGV, and reads the guest's nanoseconds instead, a counter of 1 GHz.
 */
#ifndef CLOCKSHIM_TSC_H
#define CLOCKSHIM_TSC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* The length of a reading of the counter that begins with these bytes, of which `count` are known; 0 if it is none. */
unsigned tsc_length(uint64_t bytes, unsigned count);
/* The registers after a reading of this length. */
void tsc_step(struct user_regs_struct *values, unsigned length, uint64_t counter);
/* This process and its children will stop when they read the counter, if the page says so. */
void tsc_forbid(void);
/* Whether a process that has stopped with SIGSEGV was about to read the counter. If so, it has read it now. */
bool tsc_read(pid_t process);

#endif
