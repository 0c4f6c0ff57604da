/* lwIP as a stack of Warpline: its raw interface behind warpline_stack.h.
 *
 * All variables here and in lwIP are of one host: Warpline gives each host its own copy. */

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/sys.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

#include "../warpline_stack.h"

/* Memory behind each packet: of an option whose kind is the last byte of a header, lwIP reads the length that is not there (tcp_parseopt). */
#define BEHIND 16

/* ---- The host ---- */

static struct warpline_callbacks callbacks;
static struct netif interface;
/* The time in nanoseconds. */
static uint64_t now;
/* Where a failed assertion goes. */
static jmp_buf entry;
static int failed;

static void enter(uint64_t time)
{
    now = time;
}

/* Lets what follows end at a failed assertion: then it is nonzero. */
#define FAILS() (failed || setjmp(entry) != 0)

void warpline_fail(const char *message, int line, const char *file)
{
    (void)line;
    (void)file;
    failed = 1;
    callbacks.fail(callbacks.context, message);
    longjmp(entry, 1);
}

uint32_t warpline_random(void)
{
    return (uint32_t)callbacks.random(callbacks.context);
}

/* The sum of 16-bit words in ones' complement, in the order of memory (RFC 1071), with four bytes at a time. */
uint16_t warpline_checksum(const void *bytes, int len)
{
    const unsigned char *at = bytes;
    uint64_t sum = 0;
    uint32_t word = 0;
    for (; len >= 4; len -= 4, at += 4) {
        memcpy(&word, at, 4);
        sum += word;
    }
    word = 0;
    memcpy(&word, at, (size_t)len);
    sum += word;
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return (uint16_t)sum;
}

/* lwIP's clock is in milliseconds. */
u32_t sys_now(void)
{
    return (u32_t)(now / 1000000);
}

/* ---- Memory: a ring of all that is allocated ---- */

struct piece {
    struct piece *next, *previous;
};

static struct piece pieces;

static void *keep(struct piece *piece)
{
    if (piece == NULL)
        return NULL;
    piece->next = pieces.next;
    piece->previous = &pieces;
    pieces.next->previous = piece;
    pieces.next = piece;
    return piece + 1;
}

void *warpline_malloc(size_t size)
{
    return keep(malloc(sizeof(struct piece) + size));
}

void *warpline_calloc(size_t count, size_t size)
{
    return keep(calloc(1, sizeof(struct piece) + count * size));
}

void warpline_free(void *memory)
{
    struct piece *piece = memory;
    if (piece == NULL)
        return;
    piece--;
    piece->next->previous = piece->previous;
    piece->previous->next = piece->next;
    free(piece);
}

/* ---- Sockets ---- */

struct sock {
    struct sock *next;
    uint64_t id;
    /* NULL once the connection is over for this socket. After TIME-WAIT, lwIP frees it by itself. */
    struct tcp_pcb *pcb;
    /* What has arrived and was not read. */
    struct pbuf *incoming;
    uint64_t acked;
    /* The sequence number after the last byte, once this end has closed. */
    uint32_t end;
    /* Whether the other end has closed; the application has closed; all that it wrote is acknowledged; the connection has ended well. */
    int finished, closed, is_delivered, is_over;
};

struct listener {
    struct listener *next;
    struct tcp_pcb *pcb;
    uint16_t port;
};

static struct sock *socks;
static struct listener *listeners;
static uint64_t last_id;

static struct sock *find(uint64_t id)
{
    struct sock *sock = socks;
    while (sock != NULL && sock->id != id)
        sock = sock->next;
    return sock;
}

static void tell(enum warpline_event event, const struct sock *sock)
{
    callbacks.event(callbacks.context, event, sock->id, 0, NULL);
}

/* Forgets a socket whose connection is over. */
static void forget(struct sock *sock, enum warpline_event event)
{
    struct sock **place = &socks;
    tell(event, sock);
    if (sock->incoming != NULL)
        pbuf_free(sock->incoming);
    while (*place != sock)
        place = &(*place)->next;
    *place = sock->next;
    warpline_free(sock);
}

/* Leaves a connection to lwIP, which will not say when it frees it. */
static void detach(struct sock *sock)
{
    tcp_arg(sock->pcb, NULL);
    tcp_recv(sock->pcb, NULL);
    tcp_sent(sock->pcb, NULL);
    tcp_err(sock->pcb, NULL);
    sock->pcb = NULL;
}

/* Checks whether a connection has ended well. If it has, and the application has read everything, tells it so and frees the socket. */
static void look(struct sock *sock)
{
    if (sock->pcb != NULL && sock->closed) {
        const enum tcp_state state = sock->pcb->state;
        /* The FIN takes a number, too. */
        sock->is_delivered = sock->pcb->lastack - sock->end <= 1;
        if (sock->finished && (state == TIME_WAIT || state == CLOSED)) {
            detach(sock);
            sock->is_over = 1;
        }
    }
    if (sock->is_over && sock->incoming == NULL)
        forget(sock, WARPLINE_COMPLETE);
}

static err_t on_received(void *argument, struct tcp_pcb *pcb, struct pbuf *packet, err_t error)
{
    struct sock *sock = argument;
    (void)pcb;
    (void)error;
    if (packet == NULL) {
        sock->finished = 1;
        tell(WARPLINE_FINISHED, sock);
        return ERR_OK;
    }
    if (sock->incoming == NULL)
        sock->incoming = packet;
    else
        pbuf_cat(sock->incoming, packet);
    tell(WARPLINE_READABLE, sock);
    return ERR_OK;
}

static err_t on_sent(void *argument, struct tcp_pcb *pcb, u16_t len)
{
    struct sock *sock = argument;
    (void)pcb;
    sock->acked += len;
    tell(WARPLINE_WRITABLE, sock);
    return ERR_OK;
}

/* The connection is over, and lwIP has freed it. */
static void on_error(void *argument, err_t error)
{
    struct sock *sock = argument;
    if (sock == NULL)
        return;
    sock->pcb = NULL;
    /* lwIP gives up a connection whose retransmissions have had no answer. If only the last acknowledgement is missing, it has ended well. */
    if (error == ERR_CLSD || (error == ERR_ABRT && sock->finished && sock->is_delivered)) {
        sock->is_over = 1;
        look(sock);
    } else {
        forget(sock, error == ERR_RST ? WARPLINE_RESET : WARPLINE_TIMED_OUT);
    }
}

static struct sock *add(struct tcp_pcb *pcb)
{
    struct sock *sock = warpline_calloc(1, sizeof *sock);
    if (sock == NULL)
        return NULL;
    sock->id = ++last_id;
    sock->pcb = pcb;
    sock->next = socks;
    socks = sock;
    tcp_arg(pcb, sock);
    tcp_recv(pcb, on_received);
    tcp_sent(pcb, on_sent);
    tcp_err(pcb, on_error);
    return sock;
}

/* Closes this direction of a connection whose handshake is complete. */
static void shut_down(struct sock *sock)
{
    sock->end = sock->pcb->snd_lbb;
    /* Without memory for the FIN, lwIP sends it with its next timer. */
    if (tcp_shutdown(sock->pcb, 0, 1) == ERR_OK)
        sock->closed = 1;
}

static err_t on_connected(void *argument, struct tcp_pcb *pcb, err_t error)
{
    struct sock *sock = argument;
    (void)pcb;
    (void)error;
    tell(WARPLINE_CONNECTED, sock);
    if (sock->closed)
        shut_down(sock);
    return ERR_OK;
}

static err_t on_accepted(void *argument, struct tcp_pcb *pcb, err_t error)
{
    struct sock *sock;
    struct warpline_address remote;
    (void)argument;
    if (error != ERR_OK || pcb == NULL)
        return ERR_VAL;
    sock = add(pcb);
    if (sock == NULL)
        return ERR_MEM;
    remote.ip = ip4_addr_get_u32(&pcb->remote_ip);
    remote.port = pcb->remote_port;
    callbacks.event(callbacks.context, WARPLINE_ACCEPTED, sock->id, pcb->local_port, &remote);
    return ERR_OK;
}

/* ---- The network ---- */

static err_t send_packet(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to)
{
    (void)netif;
    (void)to;
    /* One piece, by LWIP_NETIF_TX_SINGLE_PBUF; an answer of ICMP is too. */
    LWIP_ASSERT("a packet in one piece", packet->next == NULL);
    callbacks.transmit(callbacks.context, packet->payload, packet->tot_len);
    return ERR_OK;
}

static err_t begin_interface(struct netif *netif)
{
    const struct warpline_config *config = netif->state;
    netif->name[0] = 'w';
    netif->name[1] = 'l';
    netif->mtu = (u16_t)config->mtu;
    netif->output = send_packet;
    return ERR_OK;
}

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
    ip4_addr_t address, mask, gateway;
    callbacks = *given;
    pieces.next = pieces.previous = &pieces;
    enter(time);
    if (FAILS())
        return NULL;
    lwip_init();
    ip4_addr_set_u32(&address, config->ip);
    ip4_addr_set_zero(&mask);
    ip4_addr_set_zero(&gateway);
    if (netif_add(&interface, &address, &mask, &gateway, (void *)(uintptr_t)config, begin_interface, ip_input) == NULL)
        return NULL;
    interface.state = NULL;
    netif_set_default(&interface);
    netif_set_link_up(&interface);
    netif_set_up(&interface);
    return &interface;
}

void warpline_stack_free(void *host)
{
    (void)host;
    while (pieces.next != &pieces)
        warpline_free(pieces.next + 1);
}

void warpline_stack_packet(void *host, uint64_t time, const void *bytes, size_t len)
{
    struct pbuf *packet;
    struct sock *sock, *next;
    (void)host;
    enter(time);
    /* lwIP reads the header of a datagram before it looks at its length (ip4_input). */
    if (FAILS() || len < IP_HLEN || len > 0xffff - BEHIND)
        return;
    packet = pbuf_alloc(PBUF_RAW, (u16_t)(len + BEHIND), PBUF_RAM);
    if (packet == NULL)
        return;
    memcpy(packet->payload, bytes, len);
    memset((char *)packet->payload + len, 0, BEHIND);
    pbuf_realloc(packet, (u16_t)len);
    if (interface.input(packet, &interface) != ERR_OK)
        pbuf_free(packet);
    for (sock = socks; sock != NULL; sock = next) {
        next = sock->next;
        look(sock);
    }
}

void warpline_stack_timeout(void *host, uint64_t time)
{
    (void)host;
    enter(time);
    if (FAILS())
        return;
    sys_check_timeouts();
}

uint64_t warpline_stack_deadline(void *host, uint64_t time)
{
    u32_t sleep;
    uint64_t deadline;
    (void)host;
    enter(time);
    if (FAILS())
        return WARPLINE_NEVER;
    sleep = sys_timeouts_sleeptime();
    if (sleep == SYS_TIMEOUTS_SLEEPTIME_INFINITE)
        return WARPLINE_NEVER;
    deadline = (time / 1000000 + sleep) * 1000000;
    return deadline > time ? deadline : time + 1000000;
}

static int is_known(const char *cc)
{
    return cc == NULL || strcmp(cc, "reno") == 0;
}

int warpline_stack_listen(void *host, uint64_t time, uint16_t port, const char *cc)
{
    struct tcp_pcb *pcb, *listening;
    struct listener *listener;
    (void)host;
    enter(time);
    if (FAILS())
        return WARPLINE_FAILED;
    if (!is_known(cc))
        return WARPLINE_NO_CC;
    for (listener = listeners; listener != NULL; listener = listener->next)
        if (listener->port == port)
            return WARPLINE_TAKEN;
    pcb = tcp_new();
    if (pcb == NULL)
        return WARPLINE_FULL;
    /* The connections of a listener have the option from it. Then they do not keep its port from the next one. */
    ip_set_option(pcb, SOF_REUSEADDR);
    if (tcp_bind(pcb, IP_ANY_TYPE, port) != ERR_OK) {
        tcp_abort(pcb);
        return WARPLINE_TAKEN;
    }
    listener = warpline_malloc(sizeof *listener);
    listening = listener == NULL ? NULL : tcp_listen(pcb);
    if (listening == NULL) {
        warpline_free(listener);
        tcp_abort(pcb);
        return WARPLINE_FULL;
    }
    tcp_accept(listening, on_accepted);
    listener->pcb = listening;
    listener->port = port;
    listener->next = listeners;
    listeners = listener;
    return 0;
}

static void unlisten(uint16_t port)
{
    struct listener **place = &listeners, *listener;
    while (*place != NULL && (*place)->port != port)
        place = &(*place)->next;
    listener = *place;
    if (listener == NULL)
        return;
    *place = listener->next;
    tcp_close(listener->pcb);
    warpline_free(listener);
}

void warpline_stack_unlisten(void *host, uint64_t time, uint16_t port)
{
    (void)host;
    enter(time);
    if (!FAILS())
        unlisten(port);
}

int64_t warpline_stack_connect(void *host, uint64_t time, const struct warpline_address *remote, const char *cc, struct warpline_address *local)
{
    struct tcp_pcb *pcb;
    struct sock *sock;
    ip_addr_t address;
    (void)host;
    enter(time);
    if (FAILS())
        return WARPLINE_FAILED;
    if (!is_known(cc))
        return WARPLINE_NO_CC;
    pcb = tcp_new();
    if (pcb == NULL)
        return WARPLINE_FULL;
    sock = add(pcb);
    if (sock == NULL) {
        tcp_abort(pcb);
        return WARPLINE_FULL;
    }
    ip_addr_set_ip4_u32(&address, remote->ip);
    if (tcp_connect(pcb, &address, remote->port, on_connected) != ERR_OK) {
        socks = sock->next;
        warpline_free(sock);
        tcp_arg(pcb, NULL);
        tcp_err(pcb, NULL);
        tcp_abort(pcb);
        return WARPLINE_NO_PORTS;
    }
    local->ip = ip4_addr_get_u32(&pcb->local_ip);
    local->port = pcb->local_port;
    return (int64_t)sock->id;
}

static size_t write_bytes(struct sock *sock, const void *bytes, size_t len)
{
    size_t taken = 0;
    if (sock == NULL || sock->pcb == NULL || sock->closed)
        return 0;
    while (taken < len) {
        size_t room = tcp_sndbuf(sock->pcb), piece = len - taken;
        if (piece > room)
            piece = room;
        if (piece > 0xffff)
            piece = 0xffff;
        if (piece == 0 || tcp_write(sock->pcb, (const char *)bytes + taken, (u16_t)piece, TCP_WRITE_FLAG_COPY) != ERR_OK)
            break;
        taken += piece;
    }
    if (taken > 0)
        tcp_output(sock->pcb);
    return taken;
}

size_t warpline_stack_write(void *host, uint64_t time, uint64_t id, const void *bytes, size_t len)
{
    (void)host;
    enter(time);
    return FAILS() ? 0 : write_bytes(find(id), bytes, len);
}

static size_t read_bytes(struct sock *sock, void *buffer, size_t len)
{
    size_t copied = 0;
    if (sock == NULL)
        return 0;
    while (sock->incoming != NULL && copied < len) {
        size_t piece = sock->incoming->len;
        if (piece > len - copied)
            piece = len - copied;
        memcpy((char *)buffer + copied, sock->incoming->payload, piece);
        copied += piece;
        sock->incoming = pbuf_free_header(sock->incoming, (u16_t)piece);
    }
    if (sock->pcb != NULL) {
        size_t told = 0;
        while (told < copied) {
            size_t piece = copied - told > 0xffff ? 0xffff : copied - told;
            tcp_recved(sock->pcb, (u16_t)piece);
            told += piece;
        }
    }
    look(sock);
    return copied;
}

size_t warpline_stack_read(void *host, uint64_t time, uint64_t id, void *buffer, size_t len)
{
    (void)host;
    enter(time);
    return FAILS() ? 0 : read_bytes(find(id), buffer, len);
}

void warpline_stack_close(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    (void)host;
    enter(time);
    if (FAILS())
        return;
    sock = find(id);
    if (sock == NULL || sock->pcb == NULL || sock->closed)
        return;
    if (sock->pcb->state == SYN_SENT) {
        /* lwIP closes no such connection. It is done when the handshake is complete. */
        sock->closed = 1;
        return;
    }
    shut_down(sock);
    look(sock);
}

void warpline_stack_abort(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    struct tcp_pcb *pcb;
    (void)host;
    enter(time);
    if (FAILS())
        return;
    sock = find(id);
    if (sock == NULL)
        return;
    pcb = sock->pcb;
    if (pcb != NULL) {
        tcp_arg(pcb, NULL);
        tcp_err(pcb, NULL);
        tcp_abort(pcb);
        sock->pcb = NULL;
    }
    forget(sock, WARPLINE_ABORTED);
}

int warpline_stack_info(void *host, uint64_t id, struct warpline_info *info)
{
    const struct sock *sock = find(id);
    (void)host;
    if (sock == NULL)
        return WARPLINE_FAILED;
    info->acked = sock->acked;
    info->cwnd = info->ssthresh = info->srtt = info->in_flight = UINT64_MAX;
    if (sock->pcb != NULL && sock->pcb->state != LISTEN) {
        info->cwnd = sock->pcb->cwnd;
        info->ssthresh = sock->pcb->ssthresh;
        /* In eighths of a tick of 500 ms. */
        info->srtt = sock->pcb->sa < 0 ? UINT64_MAX : (uint64_t)sock->pcb->sa * TCP_SLOW_INTERVAL * 1000000 / 8;
        info->in_flight = sock->pcb->snd_nxt - sock->pcb->lastack;
    }
    return 0;
}
