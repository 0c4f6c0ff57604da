/* The page that a guest kernel shares with the Driver: configuration, whose turn it is, and data that both exchange.
 *
 * crates/guest/src/page.rs has the same layout; a test there compares every offset. Times are nanoseconds of the guest's
 * own clock (CLOCK_MONOTONIC, 0 at the start of its kernel) unless stated otherwise. NEVER stands for no instant.
 */
#ifndef CLOCKSHIM_PAGE_H
#define CLOCKSHIM_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC 0x31656e696c707277ull /* "wrpline1" */
#define PAGE_VERSION 7u
#define NEVER UINT64_MAX
/* Network devices besides the first, at most. */
#define DEVICES 16u
/* Bytes of each ring at most; a power of two. How many it has is in the ring. */
#define RING_BYTES (64u << 20)

enum mode { MODE_DILATED = 1, MODE_LOCKSTEP = 2 };
/* Whose turn it is: the value of the futex. */
enum turn { TURN_GUEST = 0, TURN_DRIVER = 1 };
/* Added to the turn by a side that sleeps while it waits. Only then is a system call needed to wake it. */
#define TURN_ASLEEP 2u
/* Why the guest has handed over the turn. */
enum reason {
    REASON_BUSY = 0, /* it has more to do, but has reached its horizon */
    REASON_IDLE = 1, /* it waits for its timer or a frame */
    REASON_FULL = 2, /* its transmit ring is full; it only wants the turn back */
};

/* A stretch of dilated time: guest = guest0 + (host - host0) * 1e9 / tdf. */
struct segment {
    uint64_t host0;  /* host's CLOCK_MONOTONIC; NEVER for no segment */
    uint64_t guest0;
    uint64_t tdf;    /* in billionths */
};

/* Dilated time: the current segment, and the next one. A change is written in advance, so that all guests and the Driver make it at
 * the same instant. */
struct pace {
    struct segment current;
    struct segment next;
};

/* A network device besides the first: an interface of a host that forwards, or a network card with offloads (card.h). Its frames are in the same rings as those of the first device,
 * with a VLAN tag that the kernel does not see. */
struct device {
    int32_t fd;       /* its descriptor; 0 for no device */
    uint32_t vlan;    /* the VLAN of its frames in the rings */
    uint64_t rate;    /* bits per second that it sends; 0 for no limit */
    uint32_t framing; /* bytes that each frame takes besides its IP datagram */
    uint32_t card;    /* 1 if it is a network card with offloads; the kernel then opens packet sockets instead of the descriptor */
};

struct ring {
    uint32_t head; /* bytes ever put in, modulo 2^32; set by the writer */
    uint32_t tail; /* bytes ever taken out, modulo 2^32; set by the reader */
    /* Written before the kernel starts. */
    uint32_t bytes; /* bytes that it has; a power of two */
    unsigned char pad[52];
    unsigned char data[RING_BYTES];
};

struct page {
    /* Written before the kernel starts. */
    uint64_t magic;
    uint32_t version;
    uint32_t mode;
    uint64_t seed;     /* seed of getrandom; lock-step only */
    uint64_t epoch;    /* CLOCK_REALTIME when the guest's clock is 0 */
    uint64_t cost;     /* guest time per entry into user mode, above 0; lock-step only */
    int32_t nic;       /* descriptor of the network device */
    uint32_t spin;     /* how often to check the turn before sleeping */
    /* Dilated time: the pace may be read while the sequence is even. */
    uint32_t sequence;
    uint32_t tsc;      /* 1 if programs read the guest's time from the time-stamp counter, 0 if they read the host's */
    struct pace pace;
    /* Dilated time: bells rung so far by the Driver (the receive ring was empty) and by the guest (the transmit ring was empty). The
     * counts save useless reads of the network device's descriptor. */
    uint64_t bells_in;
    uint64_t bells_out;
    /* Lock-step: the guest's side, which may change it while it has the turn. */
    uint32_t turn;     /* futex */
    uint32_t reason;
    uint64_t now;
    uint64_t timer;    /* when to wake it, for its timer or a frame in its ring; NEVER if neither */
    uint64_t horizon;  /* until then it may run by itself: no frame arrives before that it does not have yet */
    uint64_t interval; /* least time between two interrupts for frames; 0 for none */
    uint64_t lookahead; /* least time from sending a frame until an unforeseen effect of that frame reaches the guest */
    /* For the watchdog; these change while the guest has the turn. */
    uint64_t entries;  /* entries into user mode so far */
    uint64_t push;     /* the Driver increases it to interrupt a program that never ends its turn */
    int32_t user;      /* host process that runs in user mode, 0 for none */
    uint32_t started;  /* 1 once the shim works */
    /* Statistics. */
    uint64_t handovers;
    uint64_t sent;
    uint64_t received;
    uint64_t xstate_skipped;
    /* Written before the kernel starts; those in use come first. */
    struct device devices[DEVICES];
    struct ring transmit __attribute__((aligned(4096)));
    struct ring receive __attribute__((aligned(4096)));
};

#endif
