/* What is known of the vector registers of the guest's processes, so that they are written only after a change.
 *
 * The kernel saves and restores them around every entry into user mode, with a buffer of its own size; the host wants the whole
 * state or refuses, which the kernel answers with a panic. So the whole state is kept here, and the kernel's part laid over it.
 */
#ifndef CLOCKSHIM_XSTATE_H
#define CLOCKSHIM_XSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Room for a state; today's largest (AMX) is 11,008 bytes. */
#define XSTATE_MAX 16384u

struct xstate {
    pid_t process;
    bool valid;    /* these are the values that the process has */
    size_t length; /* bytes of the host's whole state */
    unsigned char *bytes;
};

/* The entry of a process, NULL if there is no memory. An entry that another process had is taken over. */
struct xstate *xstate_of(pid_t process);
/* Writes the kernel's part into the state. Returns whether that changed anything. */
bool xstate_merge(struct xstate *state, const void *part, size_t length);

#endif
