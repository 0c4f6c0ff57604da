/* A cache of the general registers of the guest's processes, which avoids needless reads and writes.
 *
 * With each switch to another thread, the kernel writes all registers of the process, sets the base of its thread-local memory, and
 * reads all registers again (arch/x86/um/syscalls_64.c, arch_prctl): three system calls, though the thread mostly stays inside the
 * kernel, and its registers are written once more before it leaves. So writes are kept here until the process resumes.
 */
#ifndef CLOCKSHIM_REGISTERS_H
#define CLOCKSHIM_REGISTERS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

struct registers {
    pid_t process;
    bool known;   /* the values are those of the process, or those to be written to it */
    bool written; /* the values still have to be written to the process */
    struct user_regs_struct values;
};

/* The entry of a process. NULL while another process uses it, which is until that one resumes. */
struct registers *registers_of(pid_t process);
/* Sets the registers of a process. */
void registers_write(struct registers *registers, pid_t process, const struct user_regs_struct *values);
/* Sets the base of the thread-local memory, as arch_prctl(ARCH_SET_FS) does. Returns false if that is not possible here. */
bool registers_set_fs(struct registers *registers, unsigned long base);

#endif
