/* The guest's clock and timers.
 *
 * Dilated: the host's clock, scaled; a timer of the guest is a host timer, set for the same instant. Lock-step: a number that only
 * turn.c changes; a timer is only a note of when to wake.
 *
 * On a busy host, the kernel can lose an alarm: one that comes while it serves another and has its interrupts off for a moment
 * (arch/um/os-Linux/signal.c, unblock_signals: "do not reenter the handler"). It would then wait until something else wakes it, perhaps
 * for ever. So a host timer that has fired keeps firing until it is set again. An alarm with nothing to do is harmless.
 */
#include "shim.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "ratio.h"

#define SECOND 1000000000ull
/* Interval at which an alarm repeats, in host nanoseconds: seldom enough for one served late, soon enough for one that was lost. */
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

/* Reads the current pace. The Driver may be changing it. */
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

void clock_sleep(uint64_t until)
{
    struct pace current = pace();
    struct timespec time;
    set(&time, pace_host(&current, until));
    libc.syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
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

/* Converts the time left on a timer from host time to guest time. */
static void to_guest(const struct pace *current, uint64_t present, struct itimerspec *left)
{
    uint64_t host = nanos(&left->it_value);
    uint64_t guest = pace_guest(current, present + host) - pace_guest(current, present);
    /* Time left on the host that is less than a nanosecond of the guest must not become 0, which means "off". */
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
        /* Never zero: then the kernel would spin, and keep its turn. */
        set(&left->it_value, timer != NEVER && timer > now ? timer - now : 1);
        set(&left->it_interval, interval);
        return 0;
    }
    int done = libc.timer_gettime(id, left);
    if (done == 0 && page) {
        struct pace current = pace();
        to_guest(&current, host_now(), left);
        /* For a timer that is off, report 1, or the kernel would spin. signal.c handles an alarm that came before the wait. */
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
