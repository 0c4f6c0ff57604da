/* The time-stamp counter; see tsc.h. */
#include "shim.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "registers.h"
#include "tsc.h"

/* The longest reading. */
#define LONGEST 3u

unsigned tsc_length(uint64_t bytes, unsigned count)
{
    if (count >= 2 && (bytes & 0xffff) == 0x310f)
        return 2;
    if (count >= 3 && (bytes & 0xffffff) == 0xf9010f)
        return 3;
    return 0;
}

void tsc_step(struct user_regs_struct *values, unsigned length, uint64_t counter)
{
    values->rax = counter & UINT32_MAX;
    values->rdx = counter >> 32;
    /* rdtscp also tells the processor: a guest has one. */
    if (length == 3)
        values->rcx = 0;
    values->rip += length;
}

void tsc_forbid(void)
{
    if (page && page->tsc)
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

/* The length of the reading at this address in the process, 0 if there is none. */
static unsigned length_at(pid_t process, unsigned long at)
{
    errno = 0;
    uint64_t bytes = (uint64_t)libc.ptrace(PTRACE_PEEKTEXT, process, (void *)at, NULL);
    if (errno == 0)
        return tsc_length(bytes, sizeof bytes);
    /* There is nothing behind the page on which it ends. */
    for (unsigned count = LONGEST; count >= 2; count--) {
        unsigned before = (unsigned)sizeof bytes - count;
        errno = 0;
        bytes = (uint64_t)libc.ptrace(PTRACE_PEEKTEXT, process, (void *)(at - before), NULL);
        if (errno == 0)
            return tsc_length(bytes >> (8 * before), count);
    }
    return 0;
}

static bool read_counter(pid_t process)
{
    siginfo_t why;
    if (libc.ptrace(PTRACE_GETSIGINFO, process, NULL, &why) != 0 || why.si_code != SI_KERNEL || why.si_addr != NULL)
        return false;
    struct user_regs_struct values;
    if (libc.ptrace(PTRACE_GETREGS, process, NULL, &values) != 0)
        return false;
    unsigned length = length_at(process, values.rip);
    if (length == 0)
        return false;
    tsc_step(&values, length, clock_now());
    struct registers *registers = registers_of(process);
    if (registers)
        registers_write(registers, process, &values);
    else
        libc.ptrace(PTRACE_SETREGS, process, NULL, &values);
    return true;
}

bool tsc_read(pid_t process)
{
    int before = errno;
    bool done = page && page->tsc && read_counter(process);
    errno = before;
    return done;
}
