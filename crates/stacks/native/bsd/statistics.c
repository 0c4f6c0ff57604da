/* What libslirp says of a connection: its window, its threshold and its round-trip time.
 *
 * The only place where it says that is what it saves for a machine that moves (slirp_state_save): of each connection that something is offered for,
 * by its local port. So while it saves, something is offered at that port. */

#include "host.h"

#include <arpa/inet.h>
#include <string.h>

/* Bytes that are kept: up to the place of the last value that is looked at. All numbers are in network byte order (vmstate_slirp_socket of its
 * state.c). The contents of the two buffers are left out. */
#define GLANCE 151
enum { AT_REMOTE_IP = 15, AT_REMOTE_PORT = 19, AT_CWND = 133, AT_SSTHRESH = 137, AT_SRTT = 149 };
/* The version of that format. */
#define GLANCE_VERSION 4
/* The longest piece of it that is no buffer. */
#define PIECE 16
/* Nanoseconds of the smoothed round-trip time's unit: an eighth of a tick of 499 ms. */
#define SRTT_UNIT 62375000

struct glance {
    unsigned char bytes[GLANCE];
    size_t len;
};

static ssize_t keep(const void *bytes, size_t len, void *opaque)
{
    struct glance *glance = opaque;
    if (len <= PIECE) {
        size_t room = sizeof glance->bytes - glance->len;
        memcpy(glance->bytes + glance->len, bytes, len < room ? len : room);
        glance->len += len < room ? len : room;
    }
    return (ssize_t)len;
}

/* What would be said to what is offered: nothing is, as no host connects now. */
static ssize_t say_nothing(const void *bytes, size_t len, void *opaque)
{
    (void)bytes;
    (void)opaque;
    return (ssize_t)len;
}

static uint32_t number(const struct glance *glance, size_t at)
{
    uint32_t value;
    memcpy(&value, glance->bytes + at, sizeof value);
    return ntohl(value);
}

static uint16_t short_number(const struct glance *glance, size_t at)
{
    uint16_t value;
    memcpy(&value, glance->bytes + at, sizeof value);
    return ntohs(value);
}

/* Where a port is listened on, something is offered already, and connections there have the same local port: of those it says nothing. */
void ask(struct sock *sock)
{
    struct in_addr address = {.s_addr = own.ip};
    const int port = ntohs(sock->at.local_port);
    struct glance glance = {.len = 0};
    uint16_t srtt;
    if (!sock->is_held || library.state_version() != GLANCE_VERSION || library.add_guestfwd(slirp, say_nothing, NULL, &address, port) != 0)
        return;
    library.state_save(slirp, keep, &glance);
    library.remove_guestfwd(slirp, address, port);
    if (glance.len < sizeof glance.bytes || number(&glance, AT_REMOTE_IP) != sock->at.remote_ip ||
        short_number(&glance, AT_REMOTE_PORT) != sock->at.remote_port)
        return;
    sock->cwnd = number(&glance, AT_CWND);
    sock->ssthresh = number(&glance, AT_SSTHRESH);
    srtt = short_number(&glance, AT_SRTT);
    if (srtt > 0)
        sock->srtt = (uint64_t)srtt * SRTT_UNIT;
}
