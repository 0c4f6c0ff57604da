/* Calls a function of a foreign stack, and comes back if it crashes: sigsetjmp cannot be called from Rust. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

/* Where the call in this thread comes back to; null while there is none, or while it may not be left. */
static __thread sigjmp_buf *back;

/* Calls `action`. Returns 0, or the signal with which warpline_guard_leave was called meanwhile. Calls may be nested. */
int warpline_guard(void (*action)(void *), void *context)
{
    sigjmp_buf here;
    sigjmp_buf *const outer = back;
    /* Without the mask of signals, which would cost a system call: warpline_guard_leave mends it. */
    int signal = sigsetjmp(here, 0);
    if (signal == 0) {
        back = &here;
        action(context);
    }
    back = outer;
    return signal;
}

/* From a signal handler: leaves the innermost call of this thread. Returns if there is none, or if it may not be left. */
void warpline_guard_leave(int signal)
{
    sigjmp_buf *to = back;
    if (to == NULL)
        return;
    back = NULL;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    siglongjmp(*to, signal);
}

/* From now on, the innermost call may not be left: code runs whose frames must not be skipped. Returns what warpline_guard_resume needs. */
void *warpline_guard_pause(void)
{
    sigjmp_buf *own = back;
    back = NULL;
    return own;
}

/* It may be left again. */
void warpline_guard_resume(void *own)
{
    back = own;
}
