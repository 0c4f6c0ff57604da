/* The guest's clock and timers.
 *
 * Dilated: the host's clock, scaled; a timer is set on the host for the instant at which the guest's has come. Lock-step: a number,
 * which only turn.c moves; a timer is a note of when to wake.
 *
 * The kernel loses an alarm that comes while it serves one and has its interrupts off for a moment (arch/um/os-Linux/signal.c,
 * unblock_signals: "do not reenter the handler"), which happens where the host is busy. It would wait for it until something else
 * wakes it: for good, where all is quiet. So on the host a timer that has gone off does so again and again, until it is set anew; an
 * alarm with nothing to do is harmless.
 */
#include "shim.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "ratio.h"

#define SECOND 1000000000ull
/* The interval at which an alarm repeats, in the host's time: long enough not to disturb, short enough that a lost alarm costs little. */
#define AGAIN 10000000ull

uint64_t now;
uint64_t timer = NEVER;
static uint64_t interval;

static uint64_t nanos(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec;
}

static void set(struct timespec *time, uint64_t nanos)
{
    time->tv_sec = (time_t)(nanos / SECOND);
    time->tv_nsec = (long)(nanos % SECOND);
}

static uint64_t host_now(void)
{
    struct timespec time;
    libc.clock_gettime(CLOCK_MONOTONIC, &time);
    return nanos(&time);
}

/* The pace of time. The Driver may be writing a new one meanwhile. */
static struct pace pace(void)
{
    for (;;) {
        uint32_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
        struct pace read = page->pace;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(before & 1) && before == __atomic_load_n(&page->sequence, __ATOMIC_RELAXED))
            return read;
    }
}

uint64_t clock_now(void)
{
    if (page->mode == MODE_LOCKSTEP)
        return now;
    struct pace current = pace();
    return pace_guest(&current, host_now());
}

INTERPOSE int clock_gettime(clockid_t clock, struct timespec *time)
{
    shim_init();
    if (!page)
        return libc.clock_gettime(clock, time);
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        set(time, page->epoch + clock_now());
        return 0;
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
        if (page->mode == MODE_DILATED)
            return libc.clock_gettime(clock, time);
        /* fall through */
    default:
        set(time, clock_now());
        return 0;
    }
}

INTERPOSE int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    (void)zone;
    struct timespec fine;
    clock_gettime(CLOCK_REALTIME, &fine);
    time->tv_sec = fine.tv_sec;
    time->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

INTERPOSE int timer_create(clockid_t clock, struct sigevent *event, timer_t *id)
{
    if (!lockstep())
        return libc.timer_create(clock, event, id);
    *id = NULL;
    return 0;
}

static int set_lockstep(int flags, const struct itimerspec *value)
{
    uint64_t at = nanos(&value->it_value);
    interval = nanos(&value->it_interval);
    if (at == 0)
        timer = NEVER;
    else
        timer = flags & TIMER_ABSTIME ? at : now + at;
    return 0;
}

/* Converts the rest of a timer from the host's time to the guest's. */
static void to_guest(const struct pace *current, uint64_t present, struct itimerspec *left)
{
    uint64_t host = nanos(&left->it_value);
    uint64_t guest = pace_guest(current, present + host) - pace_guest(current, present);
    /* A rest that is less than a nanosecond of the guest must not become zero. */
    set(&left->it_value, host != 0 && guest == 0 ? 1 : guest);
    set(&left->it_interval, ratio_to_guest(nanos(&left->it_interval), current->current.tdf));
}

INTERPOSE int timer_settime(timer_t id, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    if (lockstep())
        return set_lockstep(flags, value);
    if (!page)
        return libc.timer_settime(id, flags, value, old);
    struct pace current = pace();
    struct itimerspec host;
    uint64_t at = nanos(&value->it_value), present = host_now();
    if (at != 0 && flags & TIMER_ABSTIME) {
        at = pace_host(&current, at);
    } else if (at != 0) {
        at = pace_host(&current, pace_guest(&current, present) + at);
        at = at > present ? at - present : 1;
    }
    set(&host.it_value, at);
    uint64_t again = ratio_to_host(nanos(&value->it_interval), current.current.tdf);
    set(&host.it_interval, again ? again : AGAIN);
    int done = libc.timer_settime(id, flags, &host, old);
    if (done == 0 && old)
        to_guest(&current, present, old);
    return done;
}

INTERPOSE int timer_gettime(timer_t id, struct itimerspec *left)
{
    if (lockstep()) {
        /* Never zero: the kernel would spin instead of handing over its turn. */
        set(&left->it_value, timer != NEVER && timer > now ? timer - now : 1);
        set(&left->it_interval, interval);
        return 0;
    }
    int done = libc.timer_gettime(id, left);
    if (done == 0 && page) {
        struct pace current = pace();
        to_guest(&current, host_now(), left);
        /* A timer that is off ends no wait, and the kernel would spin. signal.c knows whether an alarm came before the wait. */
        if (nanos(&left->it_value) == 0)
            set(&left->it_value, 1);
    }
    return done;
}

bool clock_expire(void)
{
    if (timer > now)
        return false;
    timer = interval ? now + interval : NEVER;
    return true;
}
