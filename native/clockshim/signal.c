/* Interrupts. To the kernel, SIGIO is an interrupt of a device and SIGALRM one of the timer.
 *
 * While the kernel is idle, its interrupts are off, so its handler only notes an interrupt, which the kernel serves once they are on
 * again. There the handler is called like a function, which saves two system calls. Elsewhere the signal is raised.
 *
 * In dilated time, signals come at any time. If one came after the kernel turned its interrupts off and before it blocked signals for
 * its idle wait, the kernel would note it and then sleep: until its next timer, perhaps for long. So it is noted here too, and then the
 * wait is left out.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

typedef void handler(int, siginfo_t *, void *);

static handler *handlers[NSIG];
/* Dilated: an interrupt has come that the kernel may not have served. */
static volatile sig_atomic_t noted;

static void note(int signal, siginfo_t *info, void *context)
{
    noted = 1;
    handlers[signal](signal, info, context);
}

INTERPOSE int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    shim_init();
    bool known = signal > 0 && signal < NSIG;
    handler *before = known ? handlers[signal] : NULL;
    struct sigaction noting;
    if (action && known) {
        handlers[signal] = action->sa_flags & SA_SIGINFO ? action->sa_sigaction : NULL;
        if (dilated() && handlers[signal] && (signal == SIGIO || signal == SIGALRM)) {
            noting = *action;
            noting.sa_sigaction = note;
            action = &noting;
        }
    }
    int done = libc.sigaction(signal, action, old);
    if (done == 0 && old && old->sa_flags & SA_SIGINFO && old->sa_sigaction == note)
        old->sa_sigaction = before;
    return done;
}

/* Around its idle wait, the kernel blocks SIGALRM alone. In lock-step, no SIGALRM comes from outside, so nothing is blocked. In dilated
 * time SIGIO is blocked with it, so that no signal comes between the check of `noted` and the wait. */
INTERPOSE int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    /* The kernel uses the first 64 signals of the set. */
    uint64_t first = 0;
    if (set)
        memcpy(&first, set, sizeof first);
    bool idle = first == 1ull << (SIGALRM - 1);
    if (idle && lockstep()) {
        if (old)
            sigemptyset(old);
        return 0;
    }
    if (idle && dilated()) {
        sigset_t both;
        sigemptyset(&both);
        sigaddset(&both, SIGALRM);
        sigaddset(&both, SIGIO);
        return libc.sigprocmask(how, &both, old);
    }
    return libc.sigprocmask(how, set, old);
}

static void call(int signal)
{
    static siginfo_t info;
    static ucontext_t context;
    if (handlers[signal])
        handlers[signal](signal, &info, &context);
    else
        raise(signal);
}

/* After this, the kernel turns its interrupts on and serves those that it has noted, whatever ended the wait. */
static int suspend_dilated(const sigset_t *mask)
{
    if (!noted)
        libc.sigsuspend(mask);
    noted = 0;
    errno = EINTR;
    return -1;
}

INTERPOSE int sigsuspend(const sigset_t *mask)
{
    if (dilated())
        return suspend_dilated(mask);
    if (!lockstep())
        return libc.sigsuspend(mask);
    process_settled();
    unsigned events = turn_idle();
    if (events & EVENT_FRAME)
        call(SIGIO);
    if (events & EVENT_TIMER)
        call(SIGALRM);
    errno = EINTR;
    return -1;
}

