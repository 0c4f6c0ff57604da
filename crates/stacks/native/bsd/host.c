/* A host: its variables, its connections, and its side of what libslirp calls. */

#include "host.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* The largest datagram that libslirp can be told to send (IF_MTU_MAX of its slirp.h). */
#define LARGEST 65521
/* Periods of libslirp's timers in milliseconds (TIMEOUT_SLOW and TIMEOUT_FAST of its slirp.c), and how long it wants to sleep if it waits for
 * nothing. */
#define SLOW 499
#define FAST 2
#define IDLE 1000

struct warpline_callbacks callbacks;
Slirp *slirp;
struct sockets own;
/* Its connections. */
static struct table table;
struct listener *listeners;
/* The time in nanoseconds. */
static uint64_t now;
uint64_t turn;
const struct segment *arriving;
/* What libslirp's timers wait for, as in slirp_pollfds_poll: whether there is something to wait for, and since when (milliseconds). */
static uint32_t slow_since, fast_since;
static int is_slow, is_fast;
/* Whether it has asked for the Ethernet address of a host: a packet waits for that until it is called again. */
static int has_asked;
/* Whether one of its sockets is ready. */
static int is_ready;
jmp_buf entry;
int failed;

void on_failure(const char *reason)
{
    failed = 1;
    callbacks.fail(callbacks.context, reason);
    longjmp(entry, 1);
}

/* ---- Connections ---- */

struct sock *find_address(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    return (struct sock *)table_find_address(&table, remote_ip, remote_port, local_port);
}

int has_port(uint16_t local_port)
{
    return table_has_port(&table, local_port);
}

struct sock *find(uint64_t id)
{
    struct sock *sock = (struct sock *)table_find(&table, id);
    return sock != NULL && sock->is_open ? sock : NULL;
}

struct listener *find_listener(uint16_t port)
{
    struct listener *listener = listeners;
    while (listener != NULL && listener->port != port)
        listener = listener->next;
    return listener;
}

struct sock *add(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct sock *sock = calloc(1, sizeof *sock);
    if (sock == NULL)
        return NULL;
    sock->is_open = 1;
    sock->cwnd = sock->ssthresh = sock->srtt = UINT64_MAX;
    table_add(&table, &sock->at, remote_ip, remote_port, local_port);
    return sock;
}

static void destroy_entry(struct entry *entry)
{
    struct sock *sock = (struct sock *)entry;
    table_remove(&table, entry);
    free(sock->incoming.bytes);
    free(sock->outgoing.bytes);
    free(sock);
}

void destroy(struct sock *sock)
{
    destroy_entry(&sock->at);
}

static void leave(struct entry *entry)
{
    ((struct sock *)entry)->is_open = 0;
}

void tell(enum warpline_event event, const struct sock *sock)
{
    if (sock->is_open)
        callbacks.event(callbacks.context, event, sock->at.id, 0, NULL);
}

void forget(struct sock *sock, enum warpline_event event)
{
    /* libslirp may go on with the connection, as in TIME_WAIT. */
    tell(event, sock);
    sock->is_open = 0;
    if (!sock->is_held)
        destroy(sock);
}

static int fin_is_acked(const struct sock *sock)
{
    return sock->has_fin && (int32_t)(sock->unacked - sock->fin) >= 0;
}

/* libslirp has left it, as it has nothing to do any more; or our FIN is acknowledged. */
static int is_over(const struct sock *sock)
{
    return !sock->is_held || fin_is_acked(sock);
}

void look(struct sock *sock)
{
    if (sock->is_open && sock->is_finished && sock->incoming.count == 0 && is_over(sock))
        forget(sock, WARPLINE_COMPLETE);
}

/* ---- What libslirp does with its sockets (sockets.h) ---- */

struct sock *on_connect(uint16_t port)
{
    const struct listener *listener = find_listener(port);
    struct warpline_address remote;
    struct sock *sock;
    if (listener == NULL || listener->is_gone || arriving == NULL)
        return NULL;
    sock = add(arriving->from, arriving->from_port, arriving->to_port);
    if (sock == NULL)
        return NULL;
    sock->is_connected = 1;
    sock->unacked = sock->sent = arriving->ack;
    sock->heard = arriving->seq;
    remote.ip = sock->at.remote_ip;
    remote.port = ntohs(sock->at.remote_port);
    callbacks.event(callbacks.context, WARPLINE_ACCEPTED, sock->at.id, port, &remote);
    return sock;
}

void on_arrived(struct sock *sock)
{
    tell(WARPLINE_READABLE, sock);
}

void on_taken(struct sock *sock)
{
    tell(WARPLINE_WRITABLE, sock);
}

void on_finished(struct sock *sock)
{
    tell(WARPLINE_FINISHED, sock);
}

void on_dropped(struct sock *sock)
{
    enum warpline_event event = WARPLINE_TIMED_OUT;
    if (!sock->is_open) {
        destroy(sock);
        return;
    }
    if (sock->is_aborted)
        event = WARPLINE_ABORTED;
    else if (sock->is_finished && fin_is_acked(sock))
        event = WARPLINE_COMPLETE;
    else if (arriving != NULL)
        event = WARPLINE_RESET;
    else if (sock->is_finished && sock->has_fin && sock->unacked + 1 == sock->fin)
        /* In LAST_ACK, for longer than it tries: all was delivered but the last acknowledgement. */
        event = WARPLINE_COMPLETE;
    /* What was not read can be, and then it is complete. */
    if (event == WARPLINE_COMPLETE && sock->incoming.count > 0)
        return;
    forget(sock, event);
}

/* ---- libslirp's turn ---- */

static uint32_t milliseconds(void)
{
    return (uint32_t)(now / 1000000);
}

static int add_poll(int descriptor, int events, void *opaque)
{
    struct sock *sock = sock_of(descriptor);
    (void)opaque;
    if (sock != NULL && !sock->is_connected && events & SLIRP_POLL_IN) {
        sock->is_connected = 1;
        tell(WARPLINE_CONNECTED, sock);
    }
    is_ready |= sock_ready(descriptor, events);
    return descriptor;
}

static int get_events(int descriptor, void *opaque)
{
    struct sock *sock = sock_of(descriptor);
    (void)opaque;
    return sock != NULL ? sock->ready : sock_ready(descriptor, SLIRP_POLL_IN);
}

/* Tells libslirp the time, and lets its timers act; and its sockets, if asked. */
static void poll(int sockets_too)
{
    if (is_fast && milliseconds() - fast_since >= FAST)
        is_fast = 0;
    if (is_slow && milliseconds() - slow_since >= SLOW)
        slow_since = milliseconds();
    library.pollfds_poll(slirp, !sockets_too, get_events, NULL);
}

void enter(uint64_t time)
{
    now = time;
    turn++;
    sockets = &own;
    arriving = NULL;
    poll(0);
}

void settle(void)
{
    for (;;) {
        uint32_t sleep = UINT32_MAX;
        is_ready = 0;
        library.pollfds_fill(slirp, &sleep, add_poll, NULL);
        is_slow = sleep < IDLE;
        if (sleep == FAST && !is_fast) {
            is_fast = 1;
            fast_since = milliseconds();
        }
        if (!is_ready && !has_asked)
            return;
        has_asked = 0;
        poll(is_ready);
    }
}

uint64_t next_turn(uint64_t time)
{
    uint64_t ms = time / 1000000, deadline = WARPLINE_NEVER;
    if (is_slow)
        deadline = ms - (uint32_t)((uint32_t)ms - slow_since) + SLOW;
    if (is_fast && ms - (uint32_t)((uint32_t)ms - fast_since) + FAST < deadline)
        deadline = ms - (uint32_t)((uint32_t)ms - fast_since) + FAST;
    if (deadline == WARPLINE_NEVER)
        return deadline;
    return deadline > ms ? deadline * 1000000 : (ms + 1) * 1000000;
}

int offer(uint16_t port)
{
    struct in_addr address = {.s_addr = own.ip};
    char path[8];
    int len = 0, digits = port, place = 10000;
    while (place > 1 && digits / place == 0)
        place /= 10;
    for (; place > 0; place /= 10)
        path[len++] = (char)('0' + digits / place % 10);
    path[len] = 0;
    return library.add_unix(slirp, path, &address, port) == 0;
}

void take_back(uint16_t port)
{
    const struct in_addr address = {.s_addr = own.ip};
    library.remove_guestfwd(slirp, address, port);
}

/* ---- The network ---- */

static const unsigned char network_mac[6] = {2, 0, 0, 0, 0, 1};

void give(const struct segment *segment, const void *bytes, size_t len)
{
    unsigned char frame[14 + 65535];
    memset(frame, 0, 6);
    memcpy(frame + 6, network_mac, 6);
    frame[12] = 8;
    frame[13] = 0;
    memcpy(frame + 14, bytes, len);
    arriving = segment;
    library.input(slirp, frame, (int)(14 + len));
    arriving = NULL;
}

/* Answers its question for the Ethernet address of a host (RFC 826): all have the same. */
static void answer(const unsigned char *question)
{
    unsigned char reply[42];
    memcpy(reply, question + 6, 6);
    memcpy(reply + 6, network_mac, 6);
    memcpy(reply + 12, question + 12, 8);
    reply[20] = 0;
    reply[21] = 2;
    memcpy(reply + 22, network_mac, 6);
    memcpy(reply + 28, question + 38, 4);
    memcpy(reply + 32, question + 22, 10);
    library.input(slirp, reply, sizeof reply);
    has_asked = 1;
}

/* Notes how far a connection is, by a segment that it sends. */
static void note_sent(const struct segment *segment)
{
    struct sock *sock = find_address(segment->to, segment->to_port, segment->from_port);
    uint32_t end = segment->seq + (uint32_t)segment->len + !!(segment->flags & TCP_SYN) + !!(segment->flags & TCP_FIN);
    if (sock == NULL)
        return;
    if (segment->flags & TCP_SYN && !sock->is_connected)
        sock->unacked = sock->sent = end;
    if ((int32_t)(end - sock->sent) > 0)
        sock->sent = end;
    if (segment->flags & TCP_FIN) {
        sock->has_fin = 1;
        sock->fin = end;
    }
    if (segment->flags & TCP_ACK)
        sock->heard = segment->ack;
}

static ssize_t send_packet(const void *bytes, size_t len, void *opaque)
{
    const unsigned char *frame = bytes;
    struct segment segment;
    (void)opaque;
    if (len >= 42 && frame[12] == 8 && frame[13] == 6 && frame[21] == 1) {
        answer(frame);
    } else if (len >= 14 + 20 && frame[12] == 8 && frame[13] == 0) {
        if (segment_parse(&segment, frame + 14, len - 14)) {
            /* A RST is never answered by one (RFC 9293 section 3.10.7.1): libslirp does, and two of them would go on for ever. */
            if (segment.flags & TCP_RST && arriving != NULL && arriving->flags & TCP_RST)
                return (ssize_t)len;
            note_sent(&segment);
        }
        callbacks.transmit(callbacks.context, frame + 14, len - 14);
    }
    return (ssize_t)len;
}

int note_arrived(struct sock *sock, const struct segment *segment)
{
    uint32_t more = segment->ack - sock->unacked;
    if (!(segment->flags & TCP_ACK) || segment->flags & (TCP_SYN | TCP_RST) || more == 0 || more > sock->sent - sock->unacked ||
        !segment_is_right(segment))
        return 0;
    sock->unacked += more;
    sock->acked += more;
    if (fin_is_acked(sock))
        sock->acked--;
    return 1;
}

static int64_t clock_get_ns(void *opaque)
{
    (void)opaque;
    return (int64_t)now;
}

static void guest_error(const char *message, void *opaque)
{
    (void)message;
    (void)opaque;
}

/* Its timers are for IPv6 only, which it has not. */
static void *timer_new(SlirpTimerCb callback, void *argument, void *opaque)
{
    (void)callback;
    (void)argument;
    (void)opaque;
    return NULL;
}

static void timer_free(void *timer, void *opaque)
{
    (void)timer;
    (void)opaque;
}

static void timer_mod(void *timer, int64_t time, void *opaque)
{
    (void)timer;
    (void)time;
    (void)opaque;
}

static void note_descriptor(int descriptor, void *opaque)
{
    (void)descriptor;
    (void)opaque;
}

/* There is room in a buffer: `settle` looks at all after each call. */
static void notify(void *opaque)
{
    (void)opaque;
}

static const SlirpCb slirp_callbacks = {
    .send_packet = send_packet,
    .guest_error = guest_error,
    .clock_get_ns = clock_get_ns,
    .timer_new = timer_new,
    .timer_free = timer_free,
    .timer_mod = timer_mod,
    .register_poll_fd = note_descriptor,
    .unregister_poll_fd = note_descriptor,
    .notify = notify,
};

/* ---- Begin and end ---- */

int host_begin(uint64_t time, uint32_t ip, uint32_t mtu)
{
    const size_t largest = mtu < LARGEST ? mtu : LARGEST;
    /* Its network is this host's address alone. It needs an address for itself, which nothing has. IPv6 and the services for guests are off, and
     * only segments of TCP over IPv4 are given to it. */
    const SlirpConfig settings = {
        .version = 4,
        .restricted = 1,
        .in_enabled = 1,
        .vnetwork.s_addr = ip,
        .vnetmask.s_addr = 0xffffffff,
        .vhost.s_addr = htonl(1),
        .if_mtu = largest,
        .if_mru = largest,
        .disable_host_loopback = 1,
        .disable_dns = 1,
        .disable_dhcp = 1,
    };
    now = time;
    own.ip = ip;
    sockets = &own;
    if (!table_begin(&table))
        return 0;
    slirp = library.new(&settings, &slirp_callbacks, NULL);
    if (slirp == NULL)
        return 0;
    enter(time);
    return 1;
}

void host_end(void)
{
    sockets = &own;
    /* One whose assertion has failed may not be fit for it. */
    if (slirp != NULL && !FAILS()) {
        table_each(&table, leave);
        library.cleanup(slirp);
    }
    table_each(&table, destroy_entry);
    while (listeners != NULL) {
        struct listener *listener = listeners;
        listeners = listener->next;
        free(listener);
    }
    sockets_free(&own);
    table_end(&table);
}
