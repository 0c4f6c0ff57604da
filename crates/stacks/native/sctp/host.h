/* A host: its associations and what listens.
 *
 * All variables are of one host: Warpline gives each host its own copy. */

#ifndef SCTP_HOST_H
#define SCTP_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <usrsctp.h>

#include "../table.h"
#include "packet.h"
#include "system.h"

#pragma GCC visibility push(hidden)

/* A chunk that was sent and is not acknowledged: its bytes, or that it ends its direction. */
#define END_OF_DIRECTION UINT32_MAX

/* A socket of the host's: one end of an association. */
struct sock {
    struct entry at; /* The address in network byte order. */
    /* The next of those that have something to do. */
    struct sock *next_awake;
    struct socket *socket;
    /* Whether it is in the list of those that have something to do. */
    int is_awake;
    /* Whether the handshake is complete; the application has closed; that was told to the other end; and is acknowledged; the other end has closed. */
    int is_connected, is_closed, is_end_sent, is_end_acked, is_finished;
    /* Whether more was acknowledged, or there was no room, since the application was told. */
    int is_more_acked, was_full;
    /* The tag that it writes into packets. */
    uint32_t tag;
    /* The chunks in flight, in a ring: the first of them, their number, and for how many there is memory (a power of 2). */
    uint32_t *flight;
    size_t first, count, size;
    /* The TSN of the first, once one was sent. */
    uint32_t tsn;
    int has_tsn;
    /* Bytes in flight, and bytes that the other end has acknowledged. */
    uint64_t in_flight, acked;
};

/* What listens on a port. */
struct listener {
    struct listener *next;
    struct socket *socket;
    uint16_t port;
    /* Whether nobody listens any more. */
    int is_gone;
    /* Whether there may be something to accept. */
    int is_awake;
};

struct settings {
    uint32_t ip; /* In network byte order. */
    /* Bytes of chunks that fill a packet, and bytes of the largest message: it fills one, or the send buffer. */
    uint32_t chunks, message;
    /* Bytes of the buffers; 0 for usrsctp's own. */
    int send_buffer, receive_buffer;
};

extern struct settings settings;
extern struct listener *listeners;

/* ---- Associations (host.c) ---- */

/* Makes the tables. Returns whether there is memory for them. */
int host_begin(void);
/* A socket by its addresses; or by its name. NULL if there is none. */
struct sock *find_address(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
struct sock *find(uint64_t id);
/* Whether a socket has a local port. */
int has_port(uint16_t local_port);
/* A new one. NULL without memory. */
struct sock *add(struct socket *socket, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
/* Tells the application an event; or its last one, with which the socket is gone. */
void tell(enum warpline_event event, const struct sock *sock);
void forget(struct sock *sock, enum warpline_event event);
/* Lets it go without a word. */
void drop(struct sock *sock);
/* Ends an association by an ABORT. */
void reset(struct sock *sock, enum warpline_event event);
/* Puts it among those that have something to do. */
void wake(struct sock *sock);
/* Notes what a packet of ours, or one of the other end's, says of the chunks in flight. */
void note_sent(struct sock *sock, const struct packet *packet);
void note_arrived(struct sock *sock, const struct packet *packet);
/* Tells the other end that nothing more comes. */
void send_end(struct sock *sock);
/* Whether a message that has arrived says that. */
int is_end(const struct sctp_rcvinfo *info);
/* Tells the applications all that has happened. `has_arrived`: because of a packet. */
void settle(int has_arrived);
/* Ends an association for the application, if both ends have closed and everything was delivered. Returns whether. */
int look(struct sock *sock);

#pragma GCC visibility pop

#endif
