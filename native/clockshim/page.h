/* The page that a guest kernel shares with the Driver: configuration, whose turn it is, and the state of both sides.
 *
 * crates/guest/src/page.rs has the same layout; a test there compares every offset. Times are nanoseconds of the guest's
 * own clock (CLOCK_MONOTONIC, 0 where its kernel starts) unless stated otherwise. NEVER stands for no instant.
 */
#ifndef CLOCKSHIM_PAGE_H
#define CLOCKSHIM_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC 0x31656e696c707277ull /* "wrpline1" */
#define PAGE_VERSION 2u
#define NEVER UINT64_MAX
/* Bytes of each ring; a power of two. */
#define RING_BYTES (4u << 20)

enum mode { MODE_DILATED = 1, MODE_LOCKSTEP = 2 };
/* Whose turn it is: the value of the futex. */
enum turn { TURN_GUEST = 0, TURN_DRIVER = 1 };
/* Added to the turn by a side that sleeps while it waits: only then does it take a system call to wake it. */
#define TURN_ASLEEP 2u
/* Why the guest has handed over. */
enum reason {
    REASON_BUSY = 0, /* it would go on, but has come to its horizon */
    REASON_IDLE = 1, /* it waits for its timer or a frame */
    REASON_FULL = 2, /* its transmit ring is full; it wants the turn back, nothing else */
};

/* A stretch of dilated time: guest = guest0 + (host - host0) * 1e9 / tdf. */
struct segment {
    uint64_t host0;  /* host's CLOCK_MONOTONIC; NEVER for no segment */
    uint64_t guest0;
    uint64_t tdf;    /* in billionths */
};

/* Dilated time: the segment that holds now, and the one that follows it. A change is written before its time has come, so that all
 * guests, and the Driver, see it at the same instant. */
struct pace {
    struct segment current;
    struct segment next;
};

struct ring {
    uint32_t head; /* bytes ever put in, modulo 2^32: the writer's */
    uint32_t tail; /* bytes ever taken out, modulo 2^32: the reader's */
    unsigned char pad[56];
    unsigned char data[RING_BYTES];
};

struct page {
    /* Written before the kernel starts. */
    uint64_t magic;
    uint32_t version;
    uint32_t mode;
    uint64_t seed;     /* of getrandom, lock-step only */
    uint64_t epoch;    /* CLOCK_REALTIME where the guest's clock is 0 */
    uint64_t cost;     /* what an entry into user mode takes of the guest's time, above 0; lock-step */
    int32_t nic;       /* descriptor of the network device */
    uint32_t spin;     /* looks at the turn before sleeping */
    /* Dilated time. Even sequence: the pace may be read. */
    uint32_t sequence;
    uint32_t unused;
    struct pace pace;
    /* Dilated time: how often the Driver has written to the network device's descriptor because the receive ring was empty, and the
     * guest because the transmit ring was; so that nobody reads from it in vain. */
    uint64_t bells_in;
    uint64_t bells_out;
    /* Lock-step: the guest's side. Its own while it has the turn. */
    uint32_t turn;     /* futex */
    uint32_t reason;
    uint64_t now;
    uint64_t timer;    /* when it wants to be woken, by its timer or a frame that it has, NEVER if not */
    uint64_t horizon;  /* before this it may go on by itself: no further frame arrives earlier */
    uint64_t lookahead; /* what it sends takes at least this long to come back as a frame that is not in the ring yet */
    /* The watchdog's part; changes while the guest has the turn. */
    uint64_t entries;  /* entries into user mode so far */
    uint64_t push;     /* the Driver adds to it to push a program that never ends its turn */
    int32_t user;      /* host process that is in user mode, 0 for none */
    uint32_t started;  /* 1 once the shim works */
    /* Statistics. */
    uint64_t handovers;
    uint64_t sent;
    uint64_t received;
    uint64_t xstate_skipped;
    struct ring transmit __attribute__((aligned(4096)));
    struct ring receive __attribute__((aligned(4096)));
};

#endif
