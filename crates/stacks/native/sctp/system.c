/* What usrsctp has of the system that it runs on (system.h).
 *
 * usrsctp is linked into this object from its static archive. What it would take from the C library and could tell one run from another, or reach the
 * machine's network, is defined here instead: functions of the same names, which no other object sees. Its own calls for memory and timers are led
 * here by the linker (`--wrap`, in scripts/build_stacks.py), and from here to where they were meant for. */

#define _GNU_SOURCE

#include "system.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <usrsctp.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define MS 1000000u
/* What its clock shows when a run begins, in seconds: it takes a time of 0 for none. */
#define BEGUN 86400

struct warpline_callbacks callbacks;

/* The time in nanoseconds, and the milliseconds that usrsctp was told of. */
static uint64_t now, told;

/* ---- Clock and random numbers ---- */

HIDDEN int gettimeofday(struct timeval *time, void *zone)
{
    (void)zone;
    time->tv_sec = (time_t)(BEGUN + now / 1000000000);
    time->tv_usec = (suseconds_t)(now / 1000 % 1000000);
    return 0;
}

/* The only one that it makes is getrandom, which it calls by its number. */
HIDDEN long syscall(long number, ...)
{
    va_list arguments;
    unsigned char *bytes;
    size_t len;
    if (number != SYS_getrandom) {
        errno = ENOSYS;
        return -1;
    }
    va_start(arguments, number);
    bytes = va_arg(arguments, unsigned char *);
    len = va_arg(arguments, size_t);
    va_end(arguments);
    for (size_t at = 0; at < len; at += 8) {
        const uint64_t drawn = callbacks.random(callbacks.context);
        memcpy(bytes + at, &drawn, len - at < 8 ? len - at : 8);
    }
    return (long)len;
}

/* ---- What it does not get ---- */

static int refuse(void)
{
    errno = EPERM;
    return -1;
}

/* It has no interfaces of the machine: its only address is one of ours. */
HIDDEN int getifaddrs(struct ifaddrs **list)
{
    *list = NULL;
    return refuse();
}

HIDDEN void freeifaddrs(struct ifaddrs *list)
{
    (void)list;
}

/* Its thread for changes of addresses: there are none. */
HIDDEN int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    (void)thread;
    (void)attributes;
    (void)start;
    (void)argument;
    return EAGAIN;
}

/* No packet of a run can get to the machine's network. */
HIDDEN int socket(int domain, int type, int protocol)
{
    (void)domain;
    (void)type;
    (void)protocol;
    return refuse();
}

HIDDEN int open(const char *path, int flags, ...)
{
    (void)path;
    (void)flags;
    return refuse();
}

/* The archive is compiled for programs, so that all data must be in the same object as its code: this is the only data of the C library's. */
HIDDEN const struct in6_addr in6addr_any = IN6ADDR_ANY_INIT;

/* ---- Timers ---- */

/* usrsctp does not say when its next timer is due. So it is noted here what it starts and stops: a table of timers by their addresses. One that does
 * not run is due never, and keeps its place until the table is made anew. */
struct timer {
    void *name;
    uint64_t due; /* In milliseconds. */
};

static struct timer *timers;
/* Places in the table (a power of 2), and how many are taken. */
static size_t places, taken;
/* The earliest of them, if `is_known`. */
static uint64_t earliest = WARPLINE_NEVER;
static int is_known = 1;

/* The place of a timer: its own, or a free one. */
static struct timer *place(void *name)
{
    size_t at = (size_t)((uintptr_t)name * 0x9e3779b97f4a7c15u >> 20);
    while (timers[at & (places - 1)].name != NULL && timers[at & (places - 1)].name != name)
        at++;
    return &timers[at & (places - 1)];
}

/* Makes the table anew, with the running timers and room for as many. Without memory for it, the host has failed. */
static int make_room(void)
{
    struct timer *before = timers;
    const size_t count = places;
    size_t running = 0;
    for (size_t i = 0; i < count; i++)
        running += before[i].due != WARPLINE_NEVER;
    for (places = 16; places < 4 * running; places *= 2)
        ;
    timers = calloc(places, sizeof *timers);
    if (timers == NULL) {
        timers = before;
        places = count;
        callbacks.fail(callbacks.context, "no memory for a timer");
        return 0;
    }
    for (size_t i = 0; i < places; i++)
        timers[i].due = WARPLINE_NEVER;
    for (size_t i = 0; i < count; i++)
        if (before[i].due != WARPLINE_NEVER)
            *place(before[i].name) = before[i];
    taken = running;
    free(before);
    return 1;
}

static void set(void *name, uint64_t due)
{
    struct timer *timer;
    if (4 * (taken + 1) > 3 * places && !make_room())
        return;
    timer = place(name);
    if (timer->name == NULL) {
        timer->name = name;
        taken++;
    }
    if (timer->due == earliest)
        is_known = 0;
    if (due <= earliest)
        earliest = due;
    timer->due = due;
}

static uint64_t first(void)
{
    if (!is_known) {
        earliest = WARPLINE_NEVER;
        for (size_t i = 0; i < places; i++)
            if (timers[i].due < earliest)
                earliest = timers[i].due;
        is_known = 1;
    }
    return earliest;
}

typedef void timer_function(void *);

int __real_sctp_os_timer_start(void *timer, uint32_t ms, timer_function *function, void *argument);
int __real_sctp_os_timer_stop(void *timer);

HIDDEN int __wrap_sctp_os_timer_start(void *timer, uint32_t ms, timer_function *function, void *argument)
{
    set(timer, told + (ms > 0 ? ms : 1));
    return __real_sctp_os_timer_start(timer, ms, function, argument);
}

HIDDEN int __wrap_sctp_os_timer_stop(void *timer)
{
    if (places > 0 && place(timer)->name != NULL)
        set(timer, WARPLINE_NEVER);
    return __real_sctp_os_timer_stop(timer);
}

void system_enter(uint64_t time)
{
    const uint64_t ms = time / MS, elapsed = ms - told;
    now = time;
    if (elapsed == 0)
        return;
    told = ms;
    if (first() <= ms) {
        for (size_t i = 0; i < places; i++)
            if (timers[i].due <= ms)
                timers[i].due = WARPLINE_NEVER;
        is_known = 0;
    }
    usrsctp_handle_timers((uint32_t)elapsed);
}

uint64_t system_deadline(void)
{
    return first() == WARPLINE_NEVER ? WARPLINE_NEVER : first() * MS;
}

/* ---- Memory: a list of all that is allocated ---- */

/* Buckets of its tables of associations: of the host's, which has 31 times as many, and of each socket's. Its own numbers are for a machine: with them,
 * each host takes 170 KB. It sets them itself just before it makes the tables. */
#define BUCKETS 32
#define BUCKETS_OF_SOCKET 8

void __real_sctp_pcb_init(int starts_threads);

HIDDEN void __wrap_sctp_pcb_init(int starts_threads)
{
    usrsctp_tunable_set_sctp_hashtblsize(BUCKETS);
    usrsctp_tunable_set_sctp_pcbtblsize(BUCKETS_OF_SOCKET);
    __real_sctp_pcb_init(starts_threads);
}

struct piece {
    struct piece *next, *previous;
};

static struct piece *pieces;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);

static void *keep(struct piece *piece)
{
    if (piece == NULL)
        return NULL;
    piece->previous = NULL;
    piece->next = pieces;
    if (pieces != NULL)
        pieces->previous = piece;
    pieces = piece;
    return piece + 1;
}

HIDDEN void *__wrap_malloc(size_t size)
{
    return size > PTRDIFF_MAX ? NULL : keep(__real_malloc(sizeof(struct piece) + size));
}

HIDDEN void *__wrap_calloc(size_t count, size_t size)
{
    return size > 0 && count > PTRDIFF_MAX / size ? NULL : keep(__real_calloc(1, sizeof(struct piece) + count * size));
}

HIDDEN void __wrap_free(void *memory)
{
    struct piece *piece = memory;
    if (memory == NULL)
        return;
    piece--;
    if (piece->next != NULL)
        piece->next->previous = piece->previous;
    if (piece->previous != NULL)
        piece->previous->next = piece->next;
    else
        pieces = piece->next;
    __real_free(piece);
}

void system_free(void)
{
    while (pieces != NULL) {
        struct piece *piece = pieces;
        pieces = piece->next;
        __real_free(piece);
    }
    timers = NULL;
    places = taken = 0;
}
