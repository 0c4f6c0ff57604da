/* A host: its variables, its connections, and its side of what libslirp calls.
 *
 * All variables are of one host: Warpline gives each host its own copy. */

#ifndef BSD_HOST_H
#define BSD_HOST_H

#include <setjmp.h>

#include "library.h"
#include "segment.h"
#include "sockets.h"

#include "../warpline_stack.h"

#pragma GCC visibility push(hidden)

struct listener {
    struct listener *next;
    uint16_t port;
    /* Whether nobody listens any more. It stays for handshakes that are not complete. */
    int is_gone;
    /* Whether it is offered all the time. */
    int is_offered;
};

extern struct warpline_callbacks callbacks;
extern Slirp *slirp;
extern struct sockets own;
extern struct listener *listeners;
/* How often it was told the time. */
extern uint64_t turn;
/* The packet that libslirp looks at; NULL if it does something else. */
extern const struct segment *arriving;
/* Where a failed assertion goes. */
extern jmp_buf entry;
extern int failed;

/* Lets what follows end at a failed assertion: then it is nonzero. */
#define FAILS() (failed || setjmp(entry) != 0)

/* Begins, with the address of the host and the largest datagram that it sends. Returns whether there is memory for it. */
int host_begin(uint64_t time, uint32_t ip, uint32_t mtu);
/* Frees all that it has. */
void host_end(void);

/* ---- Connections ---- */

/* A connection by its addresses, in network byte order; or by its name, while the application has it. NULL if there is none. */
struct sock *find_address(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
struct sock *find(uint64_t id);
struct listener *find_listener(uint16_t port);
/* Whether a connection has a local port, in network byte order. */
int has_port(uint16_t local_port);
/* A new one. NULL without memory. */
struct sock *add(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
void destroy(struct sock *sock);
/* Tells the application an event; or its last one, with which the socket is gone. */
void tell(enum warpline_event event, const struct sock *sock);
void forget(struct sock *sock, enum warpline_event event);
/* Ends a connection if both ends have closed and all has arrived. */
void look(struct sock *sock);
/* Asks libslirp for the window, the threshold and the round-trip time of a connection (statistics.c). */
void ask(struct sock *sock);

/* ---- libslirp ---- */

/* Begins a call: at `time`, libslirp does what it has to do for this host. */
void enter(uint64_t time);
/* Lets libslirp do all that it can do now, and notes what it waits for. */
void settle(void);
/* When it must be called again, after `time`. */
uint64_t next_turn(uint64_t time);
/* Offers other hosts a port to connect to, and takes the offer back. libslirp takes a port for one that is offered already if it is one with its bytes
 * swapped (check_guestfwd): of two such ports, the second is offered only while a connection with it is opened. */
int offer(uint16_t port);
void take_back(uint16_t port);
/* Gives libslirp a packet of the network, which `segment` describes. */
void give(const struct segment *segment, const void *bytes, size_t len);
/* Notes how far a connection is, by a segment that has arrived. Returns whether more is acknowledged. */
int note_arrived(struct sock *sock, const struct segment *segment);

#pragma GCC visibility pop

#endif
