/* Lock-step: interrupts. The kernel takes SIGIO for its devices' and SIGALRM for its timer's.
 *
 * Where the kernel is idle it has its interrupts off, so its handler only notes that there was one, to be served as soon as they
 * are on again: it is called like a function there, which saves two system calls each time. Elsewhere the signal is raised.
 */
#include "shim.h"

#include <errno.h>
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

/* The kernel blocks SIGALRM alone around its idle wait; in lock-step no SIGALRM comes by itself. */
INTERPOSE int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    if (lockstep() && set) {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        bool only_alarm = true;
        for (int signal = 1; signal < 32 && only_alarm; signal++)
            only_alarm = sigismember(set, signal) == sigismember(&alarm, signal);
        if (only_alarm) {
            if (old)
                sigemptyset(old);
            return 0;
        }
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

