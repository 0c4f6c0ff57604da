/* Shared by the parts of the shim: the page, and the functions of libc that the shim replaces.
 *
 * Everything here runs inside a User-Mode Linux kernel, on its small stacks and in its signal handlers. So it uses no malloc (the kernel
 * has its own), no large local variables, and no stdio.
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
    int (*socket)(int, int, int);
    int (*bind)(int, const struct sockaddr *, socklen_t);
    int (*setsockopt)(int, int, int, const void *, socklen_t);
    int (*ioctl)(int, unsigned long, ...);
    int (*close)(int);
};

extern struct libc libc;
/* NULL in processes without a page, where every function is libc's. */
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

/* clock.c: in lock-step, the guest's time and its timer (NEVER if it is off). */
extern uint64_t now;
extern uint64_t timer;
/* The guest's time, in either mode. */
uint64_t clock_now(void);
/* Dilated: sleeps until a time of the guest, or until a signal comes. */
void clock_sleep(uint64_t until);
/* If the timer is due, sets it for the next interval (or off) and returns true. */
bool clock_expire(void);

/* turn.c: the events that have become due. */
#define EVENT_TIMER 1u
#define EVENT_FRAME 2u
/* The guest has nothing to do: moves time to the next event. */
unsigned turn_idle(void);
/* A program is about to run: charges the cost, and hands over the turn if that reaches the horizon. */
unsigned turn_step(void);
/* The kernel polls until `until`, when a device can send again: moves time to then, or to the next event if that is earlier. */
unsigned turn_poll(uint64_t until);
/* The transmit ring is full: hands over until it has been emptied. */
void turn_flush(void);

/* process.c: notes the process ID of this process as that of the kernel. */
void process_settled(void);
/* Forgets it: this process is a new child of the kernel. */
void process_unsettled(void);

/* nic.c: whether a frame has become visible, which is then noted; and when the next one will (NEVER if none is known). */
bool nic_due(void);
uint64_t nic_next(void);

#endif
