/* A cache of the vector registers of the guest's processes, which avoids writes that change nothing.
 *
 * The kernel saves and restores them around each entry into user mode, in a buffer of its own size. The host refuses anything but the
 * whole state, and the kernel then panics. So the whole state is kept here, and the kernel's part is copied over its beginning.
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
    bool valid;    /* the bytes are the state of the process */
    size_t length; /* bytes of the whole state on the host */
    unsigned char *bytes;
};

/* The entry of a process; NULL without memory. Takes over the entry of another process. */
struct xstate *xstate_of(pid_t process);
/* Copies the kernel's part over the state. Returns whether that changed anything. */
bool xstate_merge(struct xstate *state, const void *part, size_t length);

#endif
