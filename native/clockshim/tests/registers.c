/* Tests of what the shim keeps of processes: registers, until the process resumes, and the kernel's process ID; and of the counter that they
 * read. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../shim.h"
#include "../tsc.h"
#include "check.h"

#define RUN(test) (test(), puts("ok " #test))
#define REQUEST_ARCH_PRCTL 30
#define MARK 0x1234567890abcdefull
#define BASE 0x10000ul

/* A stopped process. It never resumes by itself. */
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

/* The registers that the process really has, read without the shim. */
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

static void other_requests_see_kept_registers_too(void)
{
    pid_t child = start();
    struct user_regs_struct values = told(child);
    values.r15 = MARK;
    CHECK(ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
    CHECK((unsigned long)ptrace(PTRACE_PEEKUSER, child, (void *)offsetof(struct user, regs.r15), NULL) == MARK);
    CHECK(really(child).r15 == MARK);
    /* If nothing was written, the host does it. */
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

/* In a child process: whether it gets its own process ID. */
static int knows_itself(void *unused)
{
    (void)unused;
    return syscall(SYS_getpid) == libc.syscall(SYS_getpid) ? 0 : 1;
}

static void the_kernel_s_number_is_nobody_else_s(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    static struct page any;
    process_settled();
    CHECK(syscall(SYS_getpid) == getpid());
    page = &any;
    pid_t child = clone(knows_itself, stack + sizeof stack, SIGCHLD, NULL);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(syscall(SYS_getpid) == getpid());
    /* A child that shares this memory. */
    child = clone(knows_itself, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    page = NULL;
    CHECK(syscall(SYS_getpid) == getpid());
}

static void only_an_entry_with_registers_costs_time(void)
{
    static struct page any = {.mode = MODE_LOCKSTEP, .cost = 1000, .horizon = NEVER};
    pid_t child = start();
    page = &any;
    for (int set = 0; set < 2; set++) {
        struct user_regs_struct values = told(child);
        CHECK(!set || ptrace(PTRACE_SETREGS, child, NULL, &values) == 0);
        CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
        CHECK(any.entries == (uint64_t)set && now == (uint64_t)set * any.cost);
    }
    page = NULL;
    now = 0;
    end(child);
}

static void readings_of_the_counter_are_known(void)
{
    CHECK(tsc_length(0xc3310f, 8) == 2 && tsc_length(0x310f, 2) == 2);
    CHECK(tsc_length(0xc3f9010f, 8) == 3 && tsc_length(0xf9010f, 3) == 3);
    /* Too few bytes, or other instructions. */
    CHECK(tsc_length(0x310f, 1) == 0 && tsc_length(0xf9010f, 2) == 0 && tsc_length(0x32310f00, 8) == 0 && tsc_length(0xf8010f, 8) == 0);
}

/* A stopped process that will run code at the end of a page, with nothing behind it. */
static pid_t start_at_the_end(const void *code, size_t length)
{
    pid_t child = fork();
    if (child == 0) {
        char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *at = memory + 4096 - length;
        memcpy(at, code, length);
        munmap(memory + 4096, 4096);
        libc.ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        tsc_forbid();
        raise(SIGSTOP);
        ((void (*)(void))(uintptr_t)at)();
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    return child;
}

static void programs_read_the_guest_s_time(void)
{
    static struct page any = {.mode = MODE_LOCKSTEP, .tsc = 1};
    const struct {
        unsigned char code[3];
        size_t length;
    } readings[] = {{{0x0f, 0x31}, 2}, {{0x0f, 0x01, 0xf9}, 3}};
    for (size_t i = 0; i < 2; i++) {
        page = &any;
        now = MARK + i;
        size_t length = readings[i].length;
        pid_t child = start_at_the_end(readings[i].code, length);
        CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGALRM);
        struct user_regs_struct values = told(child);
        CHECK((values.rdx << 32 | values.rax) == MARK + i && values.rip % 4096 == 0 && (length == 2 || values.rcx == 0));
        /* What is behind is no reading, and the kernel's affair. */
        CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV);
        CHECK(told(child).rip == values.rip);
        end(child);
        page = NULL;
    }
    now = 0;
}

int main(void)
{
    shim_init();
    RUN(the_kernel_s_number_is_nobody_else_s);
    RUN(it_goes_on_with_what_was_written);
    RUN(other_requests_see_kept_registers_too);
    RUN(what_the_host_refuses_is_an_error_still);
    RUN(one_that_has_ended_leaves_nothing);
    RUN(only_an_entry_with_registers_costs_time);
    RUN(readings_of_the_counter_are_known);
    RUN(programs_read_the_guest_s_time);
    return 0;
}
