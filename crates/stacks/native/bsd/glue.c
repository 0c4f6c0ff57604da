/* The TCP of 4.4BSD as a stack of Warpline: libslirp behind warpline_stack.h.
 *
 * libslirp connects guests of a virtual machine to sockets of the machine that they run on. It takes the guests' packets, and to them it speaks the TCP of 4.4BSD. Here the network is
 * its guest: each host of it that we talk with is one, and the sockets at the other side are ours (sockets.c). To listen is to offer a guest something to connect to
 * (slirp_add_unix); to connect is to forward a port to a guest (slirp_add_hostfwd), and to connect to that port.
 *
 * All variables here are of one host: Warpline gives each host its own copy. What all hosts of a run share is libslirp (library.c). Its idea of the time
 * is a variable of its own, so that it must be told the time (`enter`) whenever it works for a host. */

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "segment.h"
#include "sockets.h"

#include "../warpline_stack.h"

/* Buckets of the tables of connections: a power of 2. */
#define BUCKETS 64
/* The first of the local ports that are chosen (RFC 6335 section 6), and their number. */
#define FIRST_PORT 49152
#define PORTS 16384
/* Periods of libslirp's timers in milliseconds (TIMEOUT_SLOW and TIMEOUT_FAST of slirp.c), and the longest time for which it wants to sleep while it has nothing to do. */
#define SLOW 499
#define FAST 2
#define IDLE 1000

/* ---- The host ---- */

struct listener {
    struct listener *next;
    uint16_t port;
    /* Whether nobody listens any more. It stays for handshakes that are not complete. */
    int is_gone;
};

static struct warpline_callbacks callbacks;
static Slirp *slirp;
static struct sockets own;
/* Connections by their addresses, and by their names. */
static struct sock **by_address;
static struct sock **by_id;
static struct listener *listeners;
static uint64_t last_id;
/* The time in nanoseconds. */
static uint64_t now;
/* The packet that libslirp looks at; NULL if it does something else. */
static const struct segment *arriving;
/* What libslirp's timers wait for, as in slirp_pollfds_poll: whether there is something to wait for, and since when (milliseconds). */
static uint32_t slow_since, fast_since;
static int is_slow, is_fast;
/* Whether it has asked for the Ethernet address of a host: a packet waits for that until it is called again. */
static int has_asked;
static int can_read;
/* Where a failed assertion goes. */
static jmp_buf entry;
static int failed;

/* Lets what follows end at a failed assertion: then it is nonzero. */
#define FAILS() (failed || setjmp(entry) != 0)

void on_failure(const char *reason)
{
    failed = 1;
    callbacks.fail(callbacks.context, reason);
    longjmp(entry, 1);
}

/* ---- Connections ---- */

static struct sock **bucket(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    uint32_t mixed = (remote_ip ^ (uint32_t)remote_port << 16 ^ local_port) * 2654435761u;
    return &by_address[mixed >> 16 & (BUCKETS - 1)];
}

static struct sock *find_address(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct sock *sock = *bucket(remote_ip, remote_port, local_port);
    while (sock != NULL && (sock->remote_ip != remote_ip || sock->remote_port != remote_port || sock->local_port != local_port))
        sock = sock->next;
    return sock;
}

static struct sock *find(uint64_t id)
{
    struct sock *sock = by_id[id & (BUCKETS - 1)];
    while (sock != NULL && (sock->id != id || !sock->is_open))
        sock = sock->next_by_id;
    return sock;
}

static struct sock *add(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct sock *sock = calloc(1, sizeof *sock), **place = bucket(remote_ip, remote_port, local_port);
    if (sock == NULL)
        return NULL;
    sock->id = ++last_id;
    sock->remote_ip = remote_ip;
    sock->remote_port = remote_port;
    sock->local_port = local_port;
    sock->is_open = 1;
    sock->next = *place;
    *place = sock;
    place = &by_id[sock->id & (BUCKETS - 1)];
    sock->next_by_id = *place;
    *place = sock;
    return sock;
}

static void destroy(struct sock *sock)
{
    struct sock **place = bucket(sock->remote_ip, sock->remote_port, sock->local_port);
    while (*place != sock)
        place = &(*place)->next;
    *place = sock->next;
    place = &by_id[sock->id & (BUCKETS - 1)];
    while (*place != sock)
        place = &(*place)->next_by_id;
    *place = sock->next_by_id;
    free(sock->incoming.bytes);
    free(sock->outgoing.bytes);
    free(sock);
}

static void tell(enum warpline_event event, const struct sock *sock)
{
    if (sock->is_open)
        callbacks.event(callbacks.context, event, sock->id, 0, NULL);
}

/* Ends a socket. libslirp may go on with the connection, as in TIME_WAIT. */
static void forget(struct sock *sock, enum warpline_event event)
{
    tell(event, sock);
    sock->is_open = 0;
    if (!sock->is_held)
        destroy(sock);
}

static int fin_is_acked(const struct sock *sock)
{
    return sock->has_fin && (int32_t)(sock->unacked - sock->fin) >= 0;
}

/* Both ends have closed, and all has arrived: the rest is libslirp's. */
static void look(struct sock *sock)
{
    if (sock->is_open && sock->is_finished && sock->incoming.count == 0 && fin_is_acked(sock))
        forget(sock, WARPLINE_COMPLETE);
}

/* ---- What libslirp does with its sockets (sockets.h) ---- */

struct sock *on_connect(uint16_t port)
{
    const struct listener *listener = listeners;
    struct warpline_address remote;
    struct sock *sock;
    while (listener != NULL && listener->port != port)
        listener = listener->next;
    if (listener == NULL || listener->is_gone || arriving == NULL)
        return NULL;
    sock = add(arriving->from, arriving->from_port, arriving->to_port);
    if (sock == NULL)
        return NULL;
    sock->is_connected = 1;
    sock->unacked = sock->sent = arriving->ack;
    sock->heard = arriving->seq;
    remote.ip = sock->remote_ip;
    remote.port = ntohs(sock->remote_port);
    callbacks.event(callbacks.context, WARPLINE_ACCEPTED, sock->id, port, &remote);
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
    can_read |= sock_ready(descriptor, events);
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

/* Begins a call: at `time`, libslirp does what it has to do for this host. */
static void enter(uint64_t time)
{
    now = time;
    sockets = &own;
    arriving = NULL;
    poll(0);
}

/* Lets libslirp do all that it can do now, and notes what it waits for. */
static void settle(void)
{
    for (;;) {
        uint32_t sleep = UINT32_MAX;
        can_read = 0;
        library.pollfds_fill(slirp, &sleep, add_poll, NULL);
        is_slow = sleep < IDLE;
        if (sleep == FAST && !is_fast) {
            is_fast = 1;
            fast_since = milliseconds();
        }
        if (!can_read && !has_asked)
            return;
        has_asked = 0;
        poll(can_read);
    }
}

/* ---- The network ---- */

static const unsigned char network_mac[6] = {2, 0, 0, 0, 0, 1};

/* Gives libslirp a packet of the network. */
static void give(const void *bytes, size_t len)
{
    unsigned char frame[14 + 65535];
    memset(frame, 0, 6);
    memcpy(frame + 6, network_mac, 6);
    frame[12] = 8;
    frame[13] = 0;
    memcpy(frame + 14, bytes, len);
    library.input(slirp, frame, (int)(14 + len));
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

/* Notes how far a connection is, by a segment that has arrived. Returns whether more is acknowledged. */
static int note_arrived(struct sock *sock, const struct segment *segment)
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

/* ---- What the object exports ---- */

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
    /* Its network is this host's address alone. It needs an address for itself, which nothing has. IPv6, datagrams and the services for guests are off:
     * only packets of TCP over IPv4 are given to it. */
    const SlirpConfig settings = {
        .version = 4,
        .restricted = 1,
        .in_enabled = 1,
        .vnetwork.s_addr = config->ip,
        .vnetmask.s_addr = 0xffffffff,
        .vhost.s_addr = htonl(1),
        .if_mtu = config->mtu < 65521 ? config->mtu : 65521,
        .if_mru = config->mtu < 65521 ? config->mtu : 65521,
        .disable_host_loopback = 1,
        .disable_dns = 1,
        .disable_dhcp = 1,
    };
    callbacks = *given;
    if (library.why != NULL) {
        callbacks.fail(callbacks.context, library.why);
        return NULL;
    }
    now = time;
    own.ip = config->ip;
    sockets = &own;
    if (FAILS())
        return NULL;
    by_address = calloc(2 * BUCKETS, sizeof *by_address);
    if (by_address == NULL)
        return NULL;
    by_id = by_address + BUCKETS;
    slirp = library.new(&settings, &slirp_callbacks, NULL);
    if (slirp == NULL)
        return NULL;
    enter(time);
    return slirp;
}

void warpline_stack_free(void *host)
{
    int i;
    (void)host;
    sockets = &own;
    /* One whose assertion has failed may not be fit for it. */
    if (!failed && setjmp(entry) == 0) {
        for (i = 0; i < BUCKETS; i++)
            for (struct sock *sock = by_address[i]; sock != NULL; sock = sock->next)
                sock->is_open = 0;
        library.cleanup(slirp);
    }
    for (i = 0; i < BUCKETS; i++)
        while (by_address[i] != NULL)
            destroy(by_address[i]);
    while (listeners != NULL) {
        struct listener *listener = listeners;
        listeners = listener->next;
        free(listener);
    }
    sockets_free(&own);
    free(by_address);
}

/* The listener of a port; NULL if there is none. */
static struct listener *find_listener(uint16_t port)
{
    struct listener *listener = listeners;
    while (listener != NULL && listener->port != port)
        listener = listener->next;
    return listener;
}

static int offer(uint16_t port)
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

static void take_back(uint16_t port)
{
    const struct in_addr address = {.s_addr = own.ip};
    library.remove_guestfwd(slirp, address, port);
}

static void take_packet(const unsigned char *bytes, size_t len)
{
    unsigned char copy[65535];
    struct segment segment;
    struct sock *sock;
    struct listener *listener = NULL;
    uint64_t id = 0;
    int is_more = 0;
    if (len > sizeof copy)
        return;
    if (!segment_parse(&segment, bytes, len)) {
        size_t reply = segment_echo(copy, bytes, len, own.ip);
        if (reply > 0)
            callbacks.transmit(callbacks.context, copy, reply);
        return;
    }
    if (segment.to != own.ip)
        return;
    sock = find_address(segment.from, segment.from_port, segment.to_port);
    if (sock != NULL) {
        is_more = note_arrived(sock, &segment);
        id = sock->id;
        if (segment.flags & TCP_SYN && sock->is_connected) {
            /* Of a SYN, libslirp looks at the options before it sees that the connection is open. With a segment size, it makes the buffers anew, and
             * what was in them is gone (tcp_mss). */
            memcpy(copy, bytes, len);
            segment_clear_options(&segment, copy);
            bytes = copy;
        }
    } else if ((segment.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
        listener = find_listener(ntohs(segment.to_port));
        if (listener != NULL && !listener->is_gone)
            listener = NULL;
    }
    arriving = &segment;
    if (listener != NULL)
        take_back(listener->port);
    give(bytes, len);
    if (listener != NULL)
        offer(listener->port);
    arriving = NULL;
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
    uint64_t ms = time / 1000000, deadline = WARPLINE_NEVER;
    (void)host;
    if (failed)
        return WARPLINE_NEVER;
    if (is_slow)
        deadline = ms - (uint32_t)((uint32_t)ms - slow_since) + SLOW;
    if (is_fast && ms - (uint32_t)((uint32_t)ms - fast_since) + FAST < deadline)
        deadline = ms - (uint32_t)((uint32_t)ms - fast_since) + FAST;
    if (deadline == WARPLINE_NEVER)
        return deadline;
    return deadline > ms ? deadline * 1000000 : (ms + 1) * 1000000;
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
    if (!offer(port)) {
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

/* A port towards a remote address, in network byte order. 0 if all are in use. */
static uint16_t choose_port(uint32_t ip, uint16_t port)
{
    uint32_t start = (uint32_t)(callbacks.random(callbacks.context) % PORTS);
    for (uint32_t step = 0; step < PORTS; step++) {
        uint16_t local = htons((uint16_t)(FIRST_PORT + (start + step) % PORTS));
        if (find_address(ip, port, local) == NULL)
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
    port = choose_port(remote->ip, htons(remote->port));
    if (port == 0)
        return WARPLINE_NO_PORTS;
    sock = add(remote->ip, htons(remote->port), port);
    if (sock == NULL)
        return WARPLINE_FULL;
    local->ip = own.ip;
    local->port = ntohs(port);
    id = (int64_t)sock->id;
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
    struct segment segment = {.from = sock->remote_ip, .to = own.ip, .from_port = sock->remote_port, .to_port = sock->local_port};
    segment.seq = sock->heard;
    segment.ack = sock->sent;
    segment.flags = TCP_RST | TCP_ACK;
    segment_write(&segment, packet);
    arriving = &segment;
    give(packet, sizeof packet);
    arriving = NULL;
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
    /* libslirp does not read from it now, and so does not see that it is reset. */
    segment = (struct segment){.from = own.ip, .to = sock->remote_ip, .from_port = sock->local_port, .to_port = sock->remote_port};
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

int warpline_stack_info(void *host, uint64_t id, struct warpline_info *info)
{
    const struct sock *sock = find(id);
    (void)host;
    if (sock == NULL)
        return WARPLINE_FAILED;
    info->acked = sock->acked;
    info->cwnd = info->ssthresh = info->srtt = UINT64_MAX;
    info->in_flight = sock->sent - sock->unacked;
    return 0;
}
