/* Registers that are kept until a process goes on: what it has then, and what is said of it before. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../shim.h"
#include "check.h"

#define RUN(test) (test(), puts("ok " #test))
#define REQUEST_ARCH_PRCTL 30
#define MARK 0x1234567890abcdefull
#define BASE 0x10000ul

/* A process that has stopped. It never goes on by itself. */
static pid_t start(void)
{
    pid_t child = fork();
    if (child == 0) {
        libc.ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* What the process has, past the shim. */
static struct user_regs_struct really(pid_t child)
{
    struct user_regs_struct values;
    CHECK(libc.ptrace(PTRACE_GETREGS, child, NULL, &values) == 0);
    return values;
}

static struct user_regs_struct told(pid_t child)
{
    struct user_regs_struct values;
    CHECK(ptrace(PTRACE_GETREGS, child, NULL, &values) == 0);
    return values;
}

static void it_goes_on_with_what_was_written(void)
{
    pid_t child = start();
    struct user_regs_struct values = told(child);
    unsigned long long before = values.r15, place = values.rip;
    values.r15 = MARK;
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    CHECK(ptrace(REQUEST_ARCH_PRCTL, child, (void *)BASE, (void *)ARCH_SET_FS) == 0);
    CHECK(told(child).r15 == MARK && told(child).fs_base == BASE);
    CHECK(really(child).r15 == before && really(child).fs_base != BASE);
    CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(really(child).r15 == MARK && really(child).fs_base == BASE);
    CHECK(told(child).r15 == MARK && told(child).rip != place && told(child).rip == really(child).rip);
    end(child);
}

static void whoever_looks_otherwise_sees_it_too(void)
{
    pid_t child = start();
    struct user_regs_struct values = told(child);
    values.r15 = MARK;
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    CHECK((unsigned long)ptrace(PTRACE_PEEKUSER, child, (void *)offsetof(struct user, regs.r15), NULL) == MARK);
    CHECK(really(child).r15 == MARK);
    /* Where nothing was written, the host does it. */
    CHECK(ptrace(REQUEST_ARCH_PRCTL, child, (void *)BASE, (void *)ARCH_SET_FS) == 0);
    CHECK(really(child).fs_base == BASE);
    end(child);
}

static void what_the_host_refuses_is_an_error_still(void)
{
    pid_t child = start();
    struct user_regs_struct values = told(child);
    values.fs_base = ~0ull;
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    errno = 0;
    CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == -1 && errno == EIO);
    values.fs_base = 0;
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    errno = 0;
    CHECK(ptrace(REQUEST_ARCH_PRCTL, child, (void *)~0ul, (void *)ARCH_SET_FS) == -1 && errno == EPERM);
    end(child);
}

static void one_that_has_ended_leaves_nothing(void)
{
    pid_t child = start();
    struct user_regs_struct values = told(child);
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    end(child);
    errno = 0;
    CHECK(ptrace(PTRACE_GETREGS, child, NULL, &values) == -1 && errno == ESRCH);
}

int main(void)
{
    shim_init();
    RUN(it_goes_on_with_what_was_written);
    RUN(whoever_looks_otherwise_sees_it_too);
    RUN(what_the_host_refuses_is_an_error_still);
    RUN(one_that_has_ended_leaves_nothing);
    return 0;
}
