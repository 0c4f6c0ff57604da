/* Entries into user mode. The kernel runs its processes as host processes that it traces (ptrace).
 *
 * In every mode, vector registers go through xstate.c and general registers through registers.c, and all processes of the kernel end
 * with it, however it ends. In lock-step, each entry costs time, and a program can be interrupted at it.
 */
#include "shim.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registers.h"
#include "tsc.h"
#include "xstate.h"

/* Requests without a name in <sys/ptrace.h>. */
#define REQUEST_ARCH_PRCTL 30
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

/* Writes kept registers to the process and forgets them: they change when it resumes. */
static long flush(pid_t process)
{
    struct registers *registers = registers_of(process);
    if (!registers)
        return 0;
    bool written = registers->written;
    registers->known = registers->written = false;
    return written ? libc.ptrace(PTRACE_SETREGS, process, NULL, &registers->values) : 0;
}

/* Handles requests about general registers that the cache can answer. Returns whether it did. */
static bool answered(int request, pid_t process, void *address, void *data)
{
    struct registers *registers;
    switch (request) {
    case PTRACE_SETREGS:
        registers = registers_of(process);
        if (registers)
            registers_write(registers, process, data);
        return registers;
    case PTRACE_GETREGS:
        registers = registers_of(process);
        if (!registers || !registers->known)
            return false;
        memcpy(data, &registers->values, sizeof registers->values);
        return true;
    case REQUEST_ARCH_PRCTL:
        registers = registers_of(process);
        return registers && (long)data == ARCH_SET_FS && registers_set_fs(registers, (unsigned long)address);
    default:
        return false;
    }
}

/* Requests that neither read nor change general registers. */
static bool keeps_registers(int request, long set)
{
    if (request == PTRACE_GETREGSET || request == PTRACE_SETREGSET)
        return set == NT_X86_XSTATE;
    return request == PTRACE_GETSIGINFO || request == PTRACE_SETOPTIONS || request == REQUEST_OLDSETOPTIONS;
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
    /* PTRACE_CONT runs the stub of the kernel, not a program. */
    if (!lockstep() || request == PTRACE_CONT)
        return;
    /* At its start the kernel tries the machine's ptrace (arch/um/os-Linux/start_up.c, check_sysemu). It goes through functions of libc and of this
     * shim instruction by instruction, and sets no registers. Those steps must not cost time, or results would depend on that code. */
    struct registers *registers = registers_of(process);
    if (registers && !registers->written)
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
    if (answered(number, process, address, data))
        return 0;
    if (resumes(number))
        resume(number, process);
    long done = keeps_registers(number, (long)address) ? 0 : flush(process);
    /* A process that is being killed may have no registers any more. */
    if (done != 0 && resumes(number))
        return done;
    return libc.ptrace(number, process, address, data);
}

INTERPOSE pid_t waitpid(pid_t process, int *status, int options)
{
    shim_init();
    pid_t done = libc.waitpid(process, status, options);
    if (done > 0) {
        /* It has run since, or has ended, and another process may get its number. */
        struct registers *registers = registers_of(done);
        if (registers)
            registers->known = registers->written = false;
        /* The kernel sees an alarm of the process, for which it does nothing. When it lets the process go on, that is an entry as any other: so
         * time passes for a program that only reads the counter. */
        if (status && WIFSTOPPED(*status) && WSTOPSIG(*status) == SIGSEGV && tsc_read(done))
            *status = W_STOPCODE(SIGALRM);
    }
    if (page)
        __atomic_store_n(&page->user, 0, __ATOMIC_RELAXED);
    return done;
}

struct start {
    int (*function)(void *);
    void *argument;
    pid_t parent;
    bool shares; /* the kernel's memory: it is no address space of programs */
};

static int run(void *data)
{
    struct start start = *(struct start *)data;
    process_unsettled();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!start.shares)
        tsc_forbid();
    /* The parent may have ended before that was set. */
    if (getppid() != start.parent)
        _exit(125);
    return start.function(start.argument);
}

/* Helpers and processes of the kernel end with it. The start data is on the child's stack, because it may share all other memory. */
INTERPOSE int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    shim_init();
    /* These flags need more arguments. The supported kernels never use them. */
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
    start->shares = flags & CLONE_VM;
    /* A thread has the parent of its creator. */
    start->parent = flags & (CLONE_THREAD | CLONE_PARENT) ? getppid() : getpid();
    return libc.clone(run, (void *)top, flags, start);
}
