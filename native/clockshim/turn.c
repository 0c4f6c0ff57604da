/* Lock-step: how time moves, and how the turn goes to the Driver and back.
 *
 * The kernel's own code takes no time. Time moves where the kernel is idle, to the next timer or frame, and by a small cost with
 * each entry into user mode. Before the horizon the guest moves by itself; at the horizon it hands over.
 */
#include "shim.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring.h"

static uint64_t pushed;

static void futex(int operation, uint32_t value)
{
    syscall(SYS_futex, &page->turn, operation, value, NULL, NULL, 0);
}

static void hand_over(enum reason reason)
{
    page->handovers++;
    page->reason = reason;
    page->now = now;
    page->timer = timer;
    __atomic_store_n(&page->turn, TURN_DRIVER, __ATOMIC_SEQ_CST);
    futex(FUTEX_WAKE, 1);
    uint32_t looks = page->spin;
    while (__atomic_load_n(&page->turn, __ATOMIC_ACQUIRE) == TURN_DRIVER) {
        if (looks > 0) {
            looks--;
            __builtin_ia32_pause();
        } else {
            futex(FUTEX_WAIT, TURN_DRIVER);
        }
    }
    if (page->now > now)
        now = page->now;
}

static unsigned due(void)
{
    unsigned events = nic_due() ? EVENT_FRAME : 0;
    return clock_expire() ? events | EVENT_TIMER : events;
}

static uint64_t next(void)
{
    uint64_t frame = nic_next();
    return frame < timer ? frame : timer;
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
