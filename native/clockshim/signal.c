/* Interrupts. The kernel takes SIGIO for its devices' and SIGALRM for its timer's.
 *
 * Where the kernel is idle it has its interrupts off, so its handler only notes that there was one, to be served as soon as they
 * are on again: it is called like a function there, which saves two system calls each time. Elsewhere the signal is raised.
 *
 * In dilated time signals come at any time. One that comes after the kernel has switched its interrupts off, and before it blocks signals
 * for its idle wait, would be noted, and served only after the wait, which may last until the next timer: a long time of the machine's.
 * So it is noted here too, and the wait is left out.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

typedef void handler(int, siginfo_t *, void *);

static handler *handlers[NSIG];
/* Dilated: an interrupt has come, and the kernel may not have served it yet. */
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

/* The kernel blocks SIGALRM alone around its idle wait. In lock-step no SIGALRM comes by itself. In dilated time SIGIO is blocked with
 * it: nothing comes between the look at what was noted and the wait. */
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

/* The kernel turns its interrupts on after this, and then serves what it has noted, however this ends. */
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

