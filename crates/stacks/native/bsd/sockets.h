/* What libslirp takes for the machine's sockets: our ends of its connections. */

#ifndef BSD_SOCKETS_H
#define BSD_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#include "../table.h"

#pragma GCC visibility push(hidden)

/* Bytes that wait between us and libslirp, in each direction of a connection: what was written and libslirp has not taken, and what has arrived
 * and was not read. libslirp has buffers of 128 KiB of its own behind them. */
#define QUEUE_BYTES (64u << 10)

struct queue {
    unsigned char *bytes;
    /* The first byte's place, the number of bytes, and for how many there is memory (a power of 2). */
    size_t first, count, size;
};

/* Puts bytes at the end of a queue. Returns for how many there was room. */
size_t queue_put(struct queue *queue, const void *bytes, size_t len);
/* Takes bytes from its front. Returns how many. */
size_t queue_take(struct queue *queue, void *bytes, size_t len);

/* A connection: a socket of the host's, and what libslirp has as a file descriptor. */
struct sock {
    struct entry at; /* In network byte order. */
    struct queue outgoing, incoming;
    /* Whether libslirp holds it, and whether the application does: it is freed when neither does. */
    int is_held, is_open;
    /* Whether the handshake is complete; the other end has closed; we have; we have aborted. */
    int is_connected, is_finished, is_closed, is_aborted;
    /* What libslirp may do now (SLIRP_POLL_...). */
    int ready;
    /* Sequence numbers, from the packets: the first unacknowledged one, the end of what was sent, the end of our FIN, what we have acknowledged. */
    uint32_t unacked, sent, fin, heard;
    int has_fin;
    /* Bytes that the other end has acknowledged. */
    uint64_t acked;
    /* What libslirp has said of it, and when that was: the turn, and how far it was then. */
    uint64_t cwnd, ssthresh, srtt;
    uint64_t asked_in;
    uint32_t asked_unacked, asked_sent;
};

/* The sockets of a host. Those of the host that runs are `sockets`. */
struct sockets {
    /* By their descriptors. */
    struct sock **table;
    size_t size;
    /* What the listening socket accepts when it is asked. */
    struct sock *connecting;
    /* This host's address, in network byte order. */
    uint32_t ip;
};

extern struct sockets *sockets;

/* The connection of a descriptor; NULL if it has none. */
struct sock *sock_of(int descriptor);
/* What libslirp may do with a descriptor, of what it asks for (SLIRP_POLL_...). */
int sock_ready(int descriptor, int events);
/* Frees what a host has. */
void sockets_free(struct sockets *own);

/* ---- What the host does (glue.c) ---- */

/* libslirp connects to what listens on a port. NULL if nothing does. */
struct sock *on_connect(uint16_t port);
/* Bytes have arrived, or bytes were taken. */
void on_arrived(struct sock *sock);
void on_taken(struct sock *sock);
/* Everything from the other end has arrived. */
void on_finished(struct sock *sock);
/* libslirp is done with it. */
void on_dropped(struct sock *sock);
/* An assertion has failed. Does not return. */
void on_failure(const char *reason) __attribute__((noreturn));

#pragma GCC visibility pop

#endif
