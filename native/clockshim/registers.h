/* What is known of the general registers of the guest's processes, so that they are read and written only when necessary.
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
    bool known;   /* these are the values that the process has, or will get */
    bool written; /* the process has not got them yet */
    struct user_regs_struct values;
};

/* The entry of a process. NULL if another process has it, which then keeps it until it goes on. */
struct registers *registers_of(pid_t process);
/* Keeps registers that the process will get. */
void registers_write(struct registers *registers, pid_t process, const struct user_regs_struct *values);
/* Keeps the start of its thread-local memory, as set by arch_prctl(ARCH_SET_FS). Returns whether there was an entry for it. */
bool registers_set_fs(struct registers *registers, unsigned long base);

#endif
