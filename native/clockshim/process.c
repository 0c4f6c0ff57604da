/* The process ID of the kernel.
 *
 * The kernel asks for it with each switch between its threads (arch/um/kernel/process.c, set_current), though it never changes; so it is
 * kept here. Some child processes ask for their own: those with which the kernel tests the machine at its start, and the first process of
 * each address space. A lasting helper that shares the kernel's memory (arch/um/os-Linux/sigio.c, write_sigio_thread) never asks.
 */
#include "shim.h"

#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t own;

void process_settled(void)
{
    if (own == 0)
        own = getpid();
}

void process_unsettled(void)
{
    own = 0;
}

INTERPOSE long syscall(long number, ...)
{
    shim_init();
    if (number == SYS_getpid && own != 0)
        return own;
    va_list given;
    va_start(given, number);
    long arguments[6];
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(given, long);
    va_end(given);
    return libc.syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
