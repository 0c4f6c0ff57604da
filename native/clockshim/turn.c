/* Lock-step: moves time, and hands the turn to the Driver and back.
 *
 * The kernel's own code takes no time. Time moves when the kernel is idle, to the next timer or frame, and by a small cost with
 * each entry into user mode. Up to the horizon the guest runs by itself; at the horizon it hands over the turn.
 */
#include "shim.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring.h"

static uint64_t pushed;
/* When a device can send again that the kernel polls; NEVER if it polls none. */
static uint64_t polled = NEVER;

static void futex(int operation, uint32_t value)
{
    libc.syscall(SYS_futex, &page->turn, operation, value, NULL, NULL, 0);
}

static bool mine(uint32_t turn)
{
    return (turn & ~TURN_ASLEEP) == TURN_GUEST;
}

/* Waits for the turn: spins for a while, then sleeps. */
static void wait_for_turn(void)
{
    for (uint32_t looks = page->spin; looks > 0; looks--) {
        if (mine(__atomic_load_n(&page->turn, __ATOMIC_ACQUIRE)))
            return;
        __builtin_ia32_pause();
    }
    const uint32_t asleep = TURN_DRIVER | TURN_ASLEEP;
    uint32_t seen = __atomic_load_n(&page->turn, __ATOMIC_ACQUIRE);
    while (!mine(seen)) {
        if (seen == asleep ||
            __atomic_compare_exchange_n(&page->turn, &seen, asleep, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            futex(FUTEX_WAIT, asleep);
        seen = __atomic_load_n(&page->turn, __ATOMIC_ACQUIRE);
    }
}

/* Time of the next event that the guest knows of: its timer, a frame in the ring, or the end of a transmission. */
static uint64_t next(void)
{
    uint64_t frame = nic_next();
    uint64_t first = frame < timer ? frame : timer;
    return polled < first ? polled : first;
}

static void hand_over(enum reason reason)
{
    page->handovers++;
    page->reason = reason;
    page->now = now;
    page->timer = next();
    if (__atomic_exchange_n(&page->turn, TURN_DRIVER, __ATOMIC_ACQ_REL) & TURN_ASLEEP)
        futex(FUTEX_WAKE, 1);
    wait_for_turn();
    if (page->now > now)
        now = page->now;
}

static unsigned due(void)
{
    unsigned events = nic_due() ? EVENT_FRAME : 0;
    return clock_expire() ? events | EVENT_TIMER : events;
}

unsigned turn_idle(void)
{
    uint64_t at = next();
    while (at > now) {
        if (at < page->horizon)
            now = at;
        else
            hand_over(REASON_IDLE);
        at = next();
    }
    return due();
}

unsigned turn_poll(uint64_t until)
{
    polled = until;
    unsigned events = turn_idle();
    polled = NEVER;
    return events;
}

unsigned turn_step(void)
{
    uint64_t push = __atomic_load_n(&page->push, __ATOMIC_RELAXED);
    now += page->cost + (push - pushed);
    pushed = push;
    page->entries++;
    if (now >= page->horizon)
        hand_over(REASON_BUSY);
    return now >= next() ? due() : 0;
}

void turn_flush(void)
{
    hand_over(REASON_FULL);
}
