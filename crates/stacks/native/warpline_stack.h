/* What a transport stack in a shared object offers, so that it can be a host of a Warpline run.
 *
 * The object exports the functions below, with these names. Time, randomness and packets come from Warpline; the stack must use no others, and no
 * threads. All times are nanoseconds since the run's start. Addresses are IPv4, in network byte order.
 *
 * A stack that was written for one instance needs nothing more: Warpline gives every host its own copy of the object's variables, in which the
 * callbacks that were passed to warpline_stack_new may be kept. It may use malloc, realloc and free; what it has allocated has to be free after
 * warpline_stack_free. A stack that keeps its instances apart by itself says so (WARPLINE_STACK_INSTANCES); then its variables are left alone. */

#ifndef WARPLINE_STACK_H
#define WARPLINE_STACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define WARPLINE_STACK_ABI 1

/* No deadline. */
#define WARPLINE_NEVER UINT64_MAX

/* Flags of a stack. */
enum {
    /* It keeps its instances apart by itself, and may be called for several of them at the same time by several threads. */
    WARPLINE_STACK_INSTANCES = 1,
    /* A runtime of its own handles signals, as Go's does: a crash ends the process. Without this, a crash ends the host. */
    WARPLINE_STACK_SIGNALS = 2,
};

/* What has happened to a socket. The same may be told more than once. */
enum warpline_event {
    /* The handshake of a socket that was asked to connect is complete. */
    WARPLINE_CONNECTED = 1,
    /* Another host has connected; the handshake is complete. */
    WARPLINE_ACCEPTED = 2,
    /* Bytes can be read. */
    WARPLINE_READABLE = 3,
    /* There is room to write, or something was acknowledged. */
    WARPLINE_WRITABLE = 4,
    /* The other end has closed its direction, and everything from there can be read. */
    WARPLINE_FINISHED = 5,
    /* Both ends have closed, and everything was delivered. The socket is gone, as after all that follow. */
    WARPLINE_COMPLETE = 6,
    /* The other end has reset the connection, or refused it. */
    WARPLINE_RESET = 7,
    /* The other end did not answer for too long. */
    WARPLINE_TIMED_OUT = 8,
    /* This end has aborted the connection. */
    WARPLINE_ABORTED = 9,
};

/* Why a stack cannot do something. */
enum warpline_error {
    WARPLINE_TAKEN = -1,     /* Something listens on the port. */
    WARPLINE_NO_PORTS = -2,  /* All ports towards that address are in use. */
    WARPLINE_FULL = -3,      /* No memory, or as many sockets as it may have. */
    WARPLINE_NO_CC = -4,     /* It has no such congestion control. */
    WARPLINE_FAILED = -5,    /* Any other reason. */
};

/* An address and a port. The address is in network byte order, the port is not. */
struct warpline_address {
    uint32_t ip;
    uint16_t port;
};

/* Settings of a host. */
struct warpline_config {
    /* Its address, in network byte order. */
    uint32_t ip;
    /* Largest datagram that it may send, in bytes. */
    uint32_t mtu;
    /* Buffers of a socket in bytes; 0 for the stack's own default. */
    uint64_t send_buffer;
    uint64_t receive_buffer;
};

/* What a stack says of a socket. What it does not know is UINT64_MAX. */
struct warpline_info {
    uint64_t acked;     /* Bytes written that the other end has acknowledged. */
    uint64_t cwnd;      /* Bytes. */
    uint64_t ssthresh;  /* Bytes. */
    uint64_t srtt;      /* Nanoseconds. */
    uint64_t in_flight; /* Bytes. */
};

/* What a stack calls. The first argument is `context`. */
struct warpline_callbacks {
    void *context;
    /* The next of the host's random numbers. */
    uint64_t (*random)(void *context);
    /* Sends a datagram, from the IP header on. */
    void (*transmit)(void *context, const void *packet, size_t len);
    /* Tells an event. `port` and `remote` are those of an accepted connection. */
    void (*event)(void *context, enum warpline_event event, uint64_t socket, uint16_t port, const struct warpline_address *remote);
    /* An assertion of the stack has failed. The host will not be called again. */
    void (*fail)(void *context, const char *reason);
};

/* WARPLINE_STACK_ABI, and its flags. */
uint32_t warpline_stack_abi(void);
uint32_t warpline_stack_flags(void);

/* Makes a host at time `now`. NULL if it cannot. What is returned is the first argument of all other functions. */
void *warpline_stack_new(uint64_t now, const struct warpline_config *config, const struct warpline_callbacks *callbacks);
/* Frees all memory of a host. It sends nothing and tells nothing. */
void warpline_stack_free(void *host);

/* A datagram has arrived, from the IP header on. */
void warpline_stack_packet(void *host, uint64_t now, const void *packet, size_t len);
/* A deadline has come, or none has: then it does nothing. */
void warpline_stack_timeout(void *host, uint64_t now);
/* When to call warpline_stack_timeout: after `now`. WARPLINE_NEVER if nothing is due. */
uint64_t warpline_stack_deadline(void *host, uint64_t now);

/* Listens on a port. `cc` is the name of a congestion control, or NULL for the default. Returns 0 or an error. */
int warpline_stack_listen(void *host, uint64_t now, uint16_t port, const char *cc);
/* Stops listening on a port; its connections continue. */
void warpline_stack_unlisten(void *host, uint64_t now, uint16_t port);
/* Connects. Returns a socket above 0, and this end in `local`; or an error. */
int64_t warpline_stack_connect(void *host, uint64_t now, const struct warpline_address *remote, const char *cc, struct warpline_address *local);
/* Writes bytes. Returns how many were taken. */
size_t warpline_stack_write(void *host, uint64_t now, uint64_t socket, const void *bytes, size_t len);
/* Reads bytes that have arrived in order. Returns how many. */
size_t warpline_stack_read(void *host, uint64_t now, uint64_t socket, void *buffer, size_t len);
/* Closes this direction: what was written is still delivered. */
void warpline_stack_close(void *host, uint64_t now, uint64_t socket);
/* Resets the connection. */
void warpline_stack_abort(void *host, uint64_t now, uint64_t socket);
/* Fills `info`. Returns 0, or an error if there is no such socket. */
int warpline_stack_info(void *host, uint64_t socket, struct warpline_info *info);

#ifdef __cplusplus
}
#endif

#endif
