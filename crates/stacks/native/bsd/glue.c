/* The TCP of 4.4BSD as a stack of Warpline: libslirp behind warpline_stack.h.
 *
 * libslirp connects guests of a virtual machine to sockets of the machine that they run on. It takes the guests' packets, and to them it speaks the
 * TCP of 4.4BSD. Here the network is its guest, and the sockets are ours (sockets.c). To listen is to offer the guest something to connect to
 * (slirp_add_unix); to connect is to forward a port to the guest (slirp_add_hostfwd), and to connect to that port.
 *
 * What all hosts of a run share is libslirp (library.c). Its idea of the time is a variable of its own, so that it must be told the time whenever it
 * works for a host (`enter`). */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#include "../ipv4.h"

/* The first of the local ports that are chosen (RFC 6335 section 6), and their number. */
#define FIRST_PORT 49152
#define PORTS 16384

uint32_t warpline_stack_abi(void)
{
    return WARPLINE_STACK_ABI;
}

uint32_t warpline_stack_flags(void)
{
    return 0;
}

void *warpline_stack_new(uint64_t time, const struct warpline_config *config, const struct warpline_callbacks *given)
{
    callbacks = *given;
    if (library.why != NULL) {
        callbacks.fail(callbacks.context, library.why);
        return NULL;
    }
    if (!FAILS() && host_begin(time, config->ip, config->mtu))
        return slirp;
    return NULL;
}

void warpline_stack_free(void *host)
{
    (void)host;
    host_end();
}

/* Gives libslirp a segment that may open a connection with what listens on its port. */
static void give_opening(const struct segment *segment, const unsigned char *bytes, size_t len)
{
    const struct listener *listener = find_listener(ntohs(segment->to_port)), *other;
    const int is_syn = (segment->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
    if (listener == NULL || (listener->is_offered && !(listener->is_gone && is_syn))) {
        give(segment, bytes, len);
    } else if (listener->is_gone && is_syn) {
        /* It is refused as at any other port. */
        if (listener->is_offered)
            take_back(listener->port);
        give(segment, bytes, len);
        if (listener->is_offered)
            offer(listener->port);
    } else {
        other = find_listener(segment->to_port);
        take_back(other->port);
        offer(listener->port);
        give(segment, bytes, len);
        take_back(listener->port);
        offer(other->port);
    }
}

static void take_packet(const unsigned char *bytes, size_t len)
{
    unsigned char copy[65535];
    struct segment segment;
    struct sock *sock;
    uint64_t id = 0;
    int is_more = 0;
    if (len > sizeof copy)
        return;
    if (!segment_parse(&segment, bytes, len)) {
        size_t reply = ipv4_echo(copy, bytes, len, own.ip);
        if (reply > 0)
            callbacks.transmit(callbacks.context, copy, reply);
        return;
    }
    if (segment.to != own.ip)
        return;
    sock = find_address(segment.from, segment.from_port, segment.to_port);
    if (sock == NULL) {
        give_opening(&segment, bytes, len);
    } else {
        is_more = note_arrived(sock, &segment);
        id = sock->at.id;
        if (segment.flags & TCP_SYN && sock->is_connected && sock->is_open) {
            /* Of a SYN, libslirp looks at the options before it sees that the connection is open. With a segment size, it makes the buffers anew, and
             * what was in them is gone (tcp_mss). */
            memcpy(copy, bytes, len);
            segment_clear_options(&segment, copy);
            bytes = copy;
        }
        give(&segment, bytes, len);
    }
    settle();
    sock = find(id);
    if (sock != NULL && is_more)
        tell(WARPLINE_WRITABLE, sock);
    if (sock != NULL)
        look(sock);
}

void warpline_stack_packet(void *host, uint64_t time, const void *bytes, size_t len)
{
    (void)host;
    if (FAILS())
        return;
    enter(time);
    take_packet(bytes, len);
}

void warpline_stack_timeout(void *host, uint64_t time)
{
    (void)host;
    if (FAILS())
        return;
    enter(time);
    settle();
}

uint64_t warpline_stack_deadline(void *host, uint64_t time)
{
    (void)host;
    return failed ? WARPLINE_NEVER : next_turn(time);
}

static int is_known(const char *cc)
{
    return cc == NULL || strcmp(cc, "reno") == 0;
}

int warpline_stack_listen(void *host, uint64_t time, uint16_t port, const char *cc)
{
    struct listener *listener;
    (void)host;
    if (FAILS())
        return WARPLINE_FAILED;
    enter(time);
    if (!is_known(cc))
        return WARPLINE_NO_CC;
    listener = find_listener(port);
    if (listener != NULL && !listener->is_gone)
        return WARPLINE_TAKEN;
    if (listener != NULL) {
        listener->is_gone = 0;
        return 0;
    }
    listener = calloc(1, sizeof *listener);
    if (listener == NULL)
        return WARPLINE_FULL;
    listener->is_offered = offer(port);
    if (!listener->is_offered && find_listener(htons(port)) == NULL) {
        free(listener);
        return WARPLINE_FAILED;
    }
    listener->port = port;
    listener->next = listeners;
    listeners = listener;
    return 0;
}

void warpline_stack_unlisten(void *host, uint64_t time, uint16_t port)
{
    struct listener *listener = find_listener(port);
    (void)host;
    (void)time;
    if (listener != NULL)
        listener->is_gone = 1;
}

/* A local port that no connection has, in network byte order. 0 if there is none. */
static uint16_t choose_port(void)
{
    uint32_t start = (uint32_t)(callbacks.random(callbacks.context) % PORTS);
    for (uint32_t step = 0; step < PORTS; step++) {
        uint16_t local = htons((uint16_t)(FIRST_PORT + (start + step) % PORTS));
        if (!has_port(local))
            return local;
    }
    return 0;
}

int64_t warpline_stack_connect(void *host, uint64_t time, const struct warpline_address *remote, const char *cc, struct warpline_address *local)
{
    const struct in_addr here = {.s_addr = own.ip}, there = {.s_addr = remote->ip};
    struct sock *sock;
    uint16_t port;
    int64_t id;
    (void)host;
    if (FAILS())
        return WARPLINE_FAILED;
    enter(time);
    if (!is_known(cc))
        return WARPLINE_NO_CC;
    if (remote->ip == 0)
        return WARPLINE_FAILED;
    port = choose_port();
    if (port == 0)
        return WARPLINE_NO_PORTS;
    sock = add(remote->ip, htons(remote->port), port);
    if (sock == NULL)
        return WARPLINE_FULL;
    local->ip = own.ip;
    local->port = ntohs(port);
    id = (int64_t)sock->at.id;
    own.connecting = sock;
    if (library.add_hostfwd(slirp, 0, here, 0, there, remote->port) == 0) {
        settle();
        library.remove_hostfwd(slirp, 0, here, 0);
        settle();
    }
    own.connecting = NULL;
    sock = find((uint64_t)id);
    if (sock == NULL || !sock->is_held) {
        if (sock != NULL)
            destroy(sock);
        return WARPLINE_FULL;
    }
    return id;
}

static size_t write_bytes(uint64_t id, const char *bytes, size_t len)
{
    size_t taken = 0;
    for (;;) {
        struct sock *sock = find(id);
        size_t put;
        if (sock == NULL || sock->is_closed || sock->is_aborted || !sock->is_connected)
            return taken;
        put = queue_put(&sock->outgoing, bytes + taken, len - taken);
        if (put == 0)
            return taken;
        taken += put;
        settle();
    }
}

size_t warpline_stack_write(void *host, uint64_t time, uint64_t id, const void *bytes, size_t len)
{
    (void)host;
    if (FAILS())
        return 0;
    enter(time);
    return write_bytes(id, bytes, len);
}

static size_t read_bytes(uint64_t time, uint64_t id, char *buffer, size_t len)
{
    struct sock *sock = find(id);
    size_t copied = 0;
    while (sock != NULL && copied < len && sock->incoming.count > 0) {
        int was_full = sock->incoming.count == QUEUE_BYTES;
        copied += queue_take(&sock->incoming, buffer + copied, len - copied);
        if (was_full) {
            /* More waits in libslirp's buffer. */
            enter(time);
            settle();
            sock = find(id);
        }
    }
    if (sock != NULL)
        look(sock);
    return copied;
}

size_t warpline_stack_read(void *host, uint64_t time, uint64_t id, void *buffer, size_t len)
{
    (void)host;
    return FAILS() ? 0 : read_bytes(time, id, buffer, len);
}

void warpline_stack_close(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    (void)host;
    if (FAILS())
        return;
    enter(time);
    sock = find(id);
    if (sock == NULL || sock->is_closed)
        return;
    sock->is_closed = 1;
    settle();
}

/* Ends a connection with a packet that libslirp takes for the other end's, and tells the other end by one of ours. */
static void reset(struct sock *sock)
{
    unsigned char packet[40];
    struct segment segment = {.from = sock->at.remote_ip, .to = own.ip, .from_port = sock->at.remote_port, .to_port = sock->at.local_port};
    segment.seq = sock->heard;
    segment.ack = sock->sent;
    segment.flags = TCP_RST | TCP_ACK;
    segment_write(&segment, packet);
    give(&segment, packet, sizeof packet);
}

void warpline_stack_abort(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    struct segment segment;
    unsigned char packet[40];
    int was_connected;
    (void)host;
    if (FAILS())
        return;
    enter(time);
    sock = find(id);
    if (sock == NULL)
        return;
    sock->is_aborted = 1;
    was_connected = sock->is_connected;
    settle();
    sock = find(id);
    if (sock == NULL)
        return;
    if (!sock->is_held) {
        forget(sock, WARPLINE_ABORTED);
        return;
    }
    /* libslirp does not read from it now, and so does not see that it is reset. */
    segment = (struct segment){.from = own.ip, .to = sock->at.remote_ip, .from_port = sock->at.local_port, .to_port = sock->at.remote_port};
    segment.seq = sock->sent;
    segment.ack = sock->heard;
    segment.flags = TCP_RST | TCP_ACK;
    reset(sock);
    if (was_connected) {
        segment_write(&segment, packet);
        callbacks.transmit(callbacks.context, packet, sizeof packet);
    }
    sock = find(id);
    if (sock != NULL)
        forget(sock, WARPLINE_ABORTED);
    settle();
}

static int describe(uint64_t id, struct warpline_info *info)
{
    struct sock *sock = find(id);
    if (sock == NULL)
        return WARPLINE_FAILED;
    sockets = &own;
    /* To ask takes as long as a packet. Nothing changes within a call, or where nothing is sent. */
    if (sock->asked_in != turn && (sock->sent != sock->unacked || sock->sent != sock->asked_sent || sock->unacked != sock->asked_unacked)) {
        sock->asked_in = turn;
        sock->asked_sent = sock->sent;
        sock->asked_unacked = sock->unacked;
        ask(sock);
    }
    info->acked = sock->acked;
    info->cwnd = sock->cwnd;
    info->ssthresh = sock->ssthresh;
    info->srtt = sock->srtt;
    info->in_flight = sock->sent - sock->unacked;
    return 0;
}

int warpline_stack_info(void *host, uint64_t id, struct warpline_info *info)
{
    (void)host;
    return FAILS() ? WARPLINE_FAILED : describe(id, info);
}
