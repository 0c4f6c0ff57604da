/* The vector registers of the guest's processes; see xstate.h. */
#define _GNU_SOURCE
#include "xstate.h"

#include <string.h>
#include <sys/mman.h>

/* A guest process is a host process. Two processes with one entry only cost time. */
#define ENTRIES 1024u

struct xstate *xstate_of(pid_t process)
{
    static struct xstate entries[ENTRIES];
    struct xstate *state = &entries[(unsigned)process % ENTRIES];
    if (!state->bytes) {
        void *memory = mmap(NULL, XSTATE_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        state->bytes = memory;
    }
    if (state->process != process) {
        state->process = process;
        state->valid = false;
    }
    return state;
}

bool xstate_merge(struct xstate *state, const void *part, size_t length)
{
    if (length > state->length)
        length = state->length;
    if (memcmp(state->bytes, part, length) == 0)
        return false;
    memcpy(state->bytes, part, length);
    return true;
}
