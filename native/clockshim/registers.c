/* The general registers of the guest's processes; see registers.h. */
#define _GNU_SOURCE
#include "registers.h"

#include <stddef.h>

/* A guest process is a host process. If its entry is taken, its registers are not kept. */
#define ENTRIES 1024u
/* Where the host's part of the addresses begins; there no thread-local memory can be. */
#define USER_END 0x7ffffffff000ul

struct registers *registers_of(pid_t process)
{
    static struct registers entries[ENTRIES];
    struct registers *registers = &entries[(unsigned)process % ENTRIES];
    if (registers->process != process) {
        if (registers->written)
            return NULL;
        registers->process = process;
        registers->known = false;
    }
    return registers;
}

void registers_write(struct registers *registers, pid_t process, const struct user_regs_struct *values)
{
    registers->values = *values;
    /* An interrupt may have given the entry to a process that ends. */
    registers->process = process;
    registers->known = registers->written = true;
}

bool registers_set_fs(struct registers *registers, unsigned long base)
{
    if (!registers->known || base >= USER_END)
        return false;
    registers->values.fs = 0;
    registers->values.fs_base = base;
    registers->written = true;
    return true;
}
