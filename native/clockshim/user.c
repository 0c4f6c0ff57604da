/* Entries into user mode: the kernel runs its processes as host processes that it traces (ptrace).
 *
 * In every mode the vector registers go through xstate.c, and all that the kernel starts ends with it, however it ends. In lock-step
 * each entry is charged, and is where a program can be interrupted.
 */
#include "shim.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "xstate.h"

/* Requests that <sys/ptrace.h> has no names for. */
#define REQUEST_OLDSETOPTIONS 21
#define REQUEST_SYSEMU 31
#define REQUEST_SYSEMU_SINGLESTEP 32

static long read_state(pid_t process, struct xstate *state)
{
    struct iovec whole = {state->bytes, XSTATE_MAX};
    long done = libc.ptrace(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, &whole);
    if (done == 0) {
        state->length = whole.iov_len;
        state->valid = true;
    }
    return done;
}

static long get_state(pid_t process, struct iovec *wanted)
{
    struct xstate *state = xstate_of(process);
    if (!state)
        return libc.ptrace(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, wanted);
    long done = read_state(process, state);
    if (done != 0)
        return done;
    if (wanted->iov_len > state->length)
        wanted->iov_len = state->length;
    memcpy(wanted->iov_base, state->bytes, wanted->iov_len);
    return 0;
}

static long set_state(pid_t process, const struct iovec *given)
{
    struct xstate *state = xstate_of(process);
    if (!state)
        return libc.ptrace(PTRACE_SETREGSET, process, (void *)NT_X86_XSTATE, given);
    if (!state->valid) {
        long done = read_state(process, state);
        if (done != 0)
            return done;
    }
    if (!xstate_merge(state, given->iov_base, given->iov_len)) {
        if (page)
            page->xstate_skipped++;
        return 0;
    }
    struct iovec whole = {state->bytes, state->length};
    return libc.ptrace(PTRACE_SETREGSET, process, (void *)NT_X86_XSTATE, &whole);
}

static bool resumes(int request)
{
    return request == PTRACE_CONT || request == PTRACE_SYSCALL || request == PTRACE_SINGLESTEP ||
           request == REQUEST_SYSEMU || request == REQUEST_SYSEMU_SINGLESTEP;
}

static void resume(int request, pid_t process)
{
    struct xstate *state = xstate_of(process);
    if (state)
        state->valid = false;
    /* PTRACE_CONT runs the kernel's own stub, not a program. */
    if (!lockstep() || request == PTRACE_CONT)
        return;
    unsigned events = turn_step();
    if (events & EVENT_FRAME)
        raise(SIGIO);
    if (events & EVENT_TIMER)
        raise(SIGALRM);
    __atomic_store_n(&page->user, process, __ATOMIC_RELAXED);
}

INTERPOSE long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t process = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    shim_init();
    int number = (int)request;
    bool xstate = (long)address == NT_X86_XSTATE;
    if (number == PTRACE_GETREGSET && xstate)
        return get_state(process, data);
    if (number == PTRACE_SETREGSET && xstate)
        return set_state(process, data);
    if (number == PTRACE_SETOPTIONS || number == REQUEST_OLDSETOPTIONS)
        data = (void *)((long)data | PTRACE_O_EXITKILL);
    if (resumes(number))
        resume(number, process);
    return libc.ptrace(number, process, address, data);
}

INTERPOSE pid_t waitpid(pid_t process, int *status, int options)
{
    shim_init();
    pid_t done = libc.waitpid(process, status, options);
    if (page)
        __atomic_store_n(&page->user, 0, __ATOMIC_RELAXED);
    return done;
}

struct start {
    int (*function)(void *);
    void *argument;
    pid_t parent;
};

static int run(void *data)
{
    struct start start = *(struct start *)data;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* It may have ended before that was set. */
    if (getppid() != start.parent)
        _exit(125);
    return start.function(start.argument);
}

/* The kernel's helpers and processes end with it. What the child is to run is on its own stack: it may share all other memory. */
INTERPOSE int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    shim_init();
    /* With these there are more arguments, which the kernels that were studied never give. */
    if (flags & (CLONE_PARENT_SETTID | CLONE_SETTLS | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) {
        errno = ENOSYS;
        return -1;
    }
    if (!page)
        return libc.clone(function, stack, flags, argument);
    uintptr_t top = ((uintptr_t)stack - sizeof(struct start)) & ~(uintptr_t)15;
    struct start *start = (struct start *)top;
    start->function = function;
    start->argument = argument;
    /* A thread has its maker's parent. */
    start->parent = flags & (CLONE_THREAD | CLONE_PARENT) ? getppid() : getpid();
    return libc.clone(run, (void *)top, flags, start);
}
