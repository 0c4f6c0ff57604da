/* The general registers of the guest's processes; see registers.h. */
#define _GNU_SOURCE
#include "registers.h"

#include <stddef.h>

/* Entries of the cache. Each guest process is a host process; one whose entry is taken is not cached. */
#define ENTRIES 1024u
/* End of user addresses on the host; thread-local memory is below it. */
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
    /* Set again: an interrupt may have given the entry to a process that ends. */
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
