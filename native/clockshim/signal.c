/* Interrupts. The kernel takes SIGIO for its devices' and SIGALRM for its timer's.
 *
 * Where the kernel is idle it has its interrupts off, so its handler only notes that there was one, to be served as soon as they
 * are on again: it is called like a function there, which saves two system calls each time. Elsewhere the signal is raised.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

typedef void handler(int, siginfo_t *, void *);

static handler *handlers[NSIG];

INTERPOSE int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    shim_init();
    if (action && signal > 0 && signal < NSIG)
        handlers[signal] = action->sa_flags & SA_SIGINFO ? action->sa_sigaction : NULL;
    return libc.sigaction(signal, action, old);
}

/* The kernel blocks SIGALRM alone around its idle wait. In lock-step no SIGALRM comes by itself. In dilated time SIGIO is blocked with
 * it: one that came just before the wait would be noted and then slept over. */
INTERPOSE int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    /* The kernel's signals are the first 64 of the set. */
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

INTERPOSE int sigsuspend(const sigset_t *mask)
{
    if (dilated() && nic_waits()) {
        call(SIGIO);
        errno = EINTR;
        return -1;
    }
    if (!lockstep())
        return libc.sigsuspend(mask);
    unsigned events = turn_idle();
    if (events & EVENT_FRAME)
        call(SIGIO);
    if (events & EVENT_TIMER)
        call(SIGALRM);
    errno = EINTR;
    return -1;
}

