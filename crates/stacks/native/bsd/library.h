/* A copy of libslirp of our own, whose calls to the system are answered by us. */

#ifndef BSD_LIBRARY_H
#define BSD_LIBRARY_H

#include <libslirp.h>

#pragma GCC visibility push(hidden)

/* The functions that we call. */
#define LIBRARY_CALLS(CALL) \
    CALL(new) CALL(cleanup) CALL(pollfds_fill) CALL(pollfds_poll) CALL(input) CALL(add_hostfwd) CALL(remove_hostfwd) CALL(add_unix) \
    CALL(add_guestfwd) CALL(remove_guestfwd) CALL(state_save) CALL(state_version)

struct library {
    /* Why it cannot be used; NULL if it can. */
    const char *why;
#define LIBRARY_CALL(name) __typeof__(slirp_##name) *name;
    LIBRARY_CALLS(LIBRARY_CALL)
#undef LIBRARY_CALL
};

/* Loaded with this object, so that all hosts of a run have the same. */
extern struct library library;

/* A function that libslirp takes from elsewhere, and what it gets instead. */
struct replacement {
    const char *name;
    /* NULL ends the list. */
    void *function;
    /* Whether a libslirp without it is none that we know. */
    int is_required;
};

extern const struct replacement replacements[];

#pragma GCC visibility pop

#endif
