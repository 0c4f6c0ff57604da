/* What the parts of the shim share: the page, and libc's own functions, which it replaces.
 *
 * Everything here runs inside a User-Mode Linux kernel: on its small stacks, in its signal handlers. So: no malloc (the kernel has
 * its own), no large locals, no stdio.
 */
#ifndef CLOCKSHIM_SHIM_H
#define CLOCKSHIM_SHIM_H

#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "page.h"

/* Functions that the kernel finds instead of libc's; everything else is hidden. */
#define INTERPOSE __attribute__((visibility("default")))

struct libc {
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*timer_create)(clockid_t, struct sigevent *, timer_t *);
    int (*timer_settime)(timer_t, int, const struct itimerspec *, struct itimerspec *);
    int (*timer_gettime)(timer_t, struct itimerspec *);
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    int (*sigprocmask)(int, const sigset_t *, sigset_t *);
    int (*sigsuspend)(const sigset_t *);
    int (*sendmmsg)(int, struct mmsghdr *, unsigned, int);
    int (*recvmmsg)(int, struct mmsghdr *, unsigned, int, struct timespec *);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*readv)(int, const struct iovec *, int);
    int (*epoll_ctl)(int, int, int, struct epoll_event *);
    int (*epoll_wait)(int, struct epoll_event *, int, int);
    ssize_t (*getrandom)(void *, size_t, unsigned);
    long (*ptrace)(int, ...);
    pid_t (*waitpid)(pid_t, int *, int);
    int (*clone)(int (*)(void *), void *, int, void *, ...);
    long (*syscall)(long, ...);
};

extern struct libc libc;
/* NULL in processes that the shim leaves alone. */
extern struct page *page;

/* Looks up libc's functions and maps the page, once; every interposed function calls it first. */
void shim_init(void);

static inline bool lockstep(void)
{
    shim_init();
    return page && page->mode == MODE_LOCKSTEP;
}

static inline bool dilated(void)
{
    shim_init();
    return page && page->mode == MODE_DILATED;
}

/* clock.c: in lock-step, the guest's time, and its timer (NEVER when it is off). */
extern uint64_t now;
extern uint64_t timer;
/* The guest's time, in either mode. */
uint64_t clock_now(void);
/* If the timer is due: sets it anew (or off) and says so. */
bool clock_expire(void);

/* turn.c: what has become due. */
#define EVENT_TIMER 1u
#define EVENT_FRAME 2u
/* The guest has nothing to do: time moves to what comes next. */
unsigned turn_idle(void);
/* A program is about to go on: charges it, and hands over if that takes it to the horizon. */
unsigned turn_step(void);
/* The transmit ring is full: lets the Driver empty it. */
void turn_flush(void);

/* process.c: this process is the kernel's. */
void process_settled(void);
/* The kernel has just made this process. */
void process_unsettled(void);

/* nic.c: notes that a frame has become visible, and when the next one will (NEVER if none is known). */
bool nic_due(void);
uint64_t nic_next(void);

#endif
