/* What is known of the general registers of the guest's processes, so that they are neither read nor written where nothing needs them.
 *
 * For every switch to another thread the kernel writes all registers of its process, sets the base of its thread-local memory, and
 * reads all of them again (arch/x86/um/syscalls_64.c, arch_prctl): three system calls, for a thread that more often than not stays inside
 * the kernel, and before it leaves it they are written once more. So what is written is kept here until the process goes on.
 */
#ifndef CLOCKSHIM_REGISTERS_H
#define CLOCKSHIM_REGISTERS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

struct registers {
    pid_t process;
    bool known;   /* what is here is what the process has, or is to have */
    bool written; /* it has not got them yet */
    struct user_regs_struct values;
};

/* The entry of a process. NULL if another process has it, which then keeps it until it goes on. */
struct registers *registers_of(pid_t process);
/* The process is to have these. */
void registers_write(struct registers *registers, pid_t process, const struct user_regs_struct *values);
/* Its thread-local memory is to begin there, as arch_prctl(ARCH_SET_FS) has it. Returns whether that could be noted. */
bool registers_set_fs(struct registers *registers, unsigned long base);

#endif
