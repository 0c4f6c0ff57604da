/* A host: its associations (host.h). */

#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* What an end sends when its application has closed: a message of one byte with this payload protocol identifier ("WEND"). SCTP closes both directions
 * at once (RFC 9260 section 9); an application may still want to receive. */
#define END_PROTOCOL 0x57454e44u

struct settings settings;
struct listener *listeners;

static struct table table;
static struct sock *awake;

int host_begin(void)
{
    return table_begin(&table);
}

struct sock *find_address(uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    return (struct sock *)table_find_address(&table, remote_ip, remote_port, local_port);
}

struct sock *find(uint64_t id)
{
    return (struct sock *)table_find(&table, id);
}

int has_port(uint16_t local_port)
{
    if (table_has_port(&table, local_port))
        return 1;
    for (const struct listener *listener = listeners; listener != NULL; listener = listener->next)
        if (listener->port == local_port)
            return 1;
    return 0;
}

void wake(struct sock *sock)
{
    if (sock->is_awake)
        return;
    sock->is_awake = 1;
    sock->next_awake = awake;
    awake = sock;
}

/* usrsctp tells that something has happened to a socket. What it is, is looked at when usrsctp is done. */
static void on_change(struct socket *socket, void *own, int flags)
{
    (void)socket;
    (void)flags;
    wake(own);
}

struct sock *add(struct socket *socket, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct sock *sock = calloc(1, sizeof *sock);
    if (sock == NULL)
        return NULL;
    sock->socket = socket;
    table_add(&table, &sock->at, remote_ip, remote_port, local_port);
    usrsctp_set_upcall(socket, on_change, sock);
    return sock;
}

static void destroy(struct sock *sock)
{
    table_remove(&table, &sock->at);
    if (sock->is_awake) {
        struct sock **place = &awake;
        while (*place != sock)
            place = &(*place)->next_awake;
        *place = sock->next_awake;
    }
    free(sock->flight);
    free(sock);
}

void tell(enum warpline_event event, const struct sock *sock)
{
    callbacks.event(callbacks.context, event, sock->at.id, 0, NULL);
}

void drop(struct sock *sock)
{
    struct socket *socket = sock->socket;
    usrsctp_set_upcall(socket, NULL, NULL);
    destroy(sock);
    /* It shuts the association down, if there still is one, and goes on with that by itself. */
    usrsctp_close(socket);
}

void forget(struct sock *sock, enum warpline_event event)
{
    tell(event, sock);
    drop(sock);
}

void reset(struct sock *sock, enum warpline_event event)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    usrsctp_setsockopt(sock->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    forget(sock, event);
}

int look(struct sock *sock)
{
    if (!sock->is_finished || !sock->is_end_acked)
        return 0;
    forget(sock, WARPLINE_COMPLETE);
    return 1;
}

/* ---- What is in flight ---- */

static int make_room(struct sock *sock)
{
    const size_t size = sock->size > 0 ? 2 * sock->size : 16;
    uint32_t *flight = malloc(size * sizeof *flight);
    if (flight == NULL)
        return 0;
    for (size_t i = 0; i < sock->count; i++)
        flight[i] = sock->flight[(sock->first + i) & (sock->size - 1)];
    free(sock->flight);
    sock->flight = flight;
    sock->first = 0;
    sock->size = size;
    return 1;
}

/* A chunk was sent. What was sent before is in the ring already. */
static void note_data(struct sock *sock, const struct chunk *chunk)
{
    const int is_end = chunk->protocol == END_PROTOCOL;
    if (!sock->has_tsn) {
        sock->has_tsn = 1;
        sock->tsn = chunk->number;
    }
    if (chunk->number - sock->tsn != sock->count)
        return;
    if (sock->count == sock->size && !make_room(sock)) {
        callbacks.fail(callbacks.context, "no memory for a packet");
        return;
    }
    sock->flight[(sock->first + sock->count++) & (sock->size - 1)] = is_end ? END_OF_DIRECTION : (uint32_t)chunk->len;
    sock->in_flight += is_end ? 0 : chunk->len;
}

/* The other end has all up to a TSN. */
static void note_ack(struct sock *sock, uint32_t tsn)
{
    uint32_t more = tsn - sock->tsn + 1;
    if (!sock->has_tsn || more == 0 || more > sock->count)
        return;
    sock->tsn += more;
    for (; more > 0; more--) {
        const uint32_t bytes = sock->flight[sock->first];
        sock->first = (sock->first + 1) & (sock->size - 1);
        sock->count--;
        if (bytes == END_OF_DIRECTION) {
            sock->is_end_acked = 1;
        } else {
            sock->acked += bytes;
            sock->in_flight -= bytes;
            sock->is_more_acked = 1;
        }
    }
}

void note_sent(struct sock *sock, const struct packet *packet)
{
    struct chunk chunk;
    size_t at = SCTP_HEADER;
    if (packet->tag != 0)
        sock->tag = packet->tag;
    while (packet_next(packet, &at, &chunk))
        if (chunk.kind == CHUNK_DATA)
            note_data(sock, &chunk);
}

void note_arrived(struct sock *sock, const struct packet *packet)
{
    struct chunk chunk;
    size_t at = SCTP_HEADER;
    while (packet_next(packet, &at, &chunk))
        if (chunk.kind == CHUNK_ACK)
            note_ack(sock, chunk.number);
}

/* ---- What usrsctp has done ---- */

void send_end(struct sock *sock)
{
    struct sctp_sndinfo info = {.snd_ppid = htonl(END_PROTOCOL)};
    const int yes = 1;
    const char byte = 0;
    /* Nothing comes that could go with it. */
    usrsctp_setsockopt(sock->socket, IPPROTO_SCTP, SCTP_NODELAY, &yes, sizeof yes);
    sock->is_end_sent = usrsctp_sendv(sock->socket, &byte, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) == 1;
}

int is_end(const struct sctp_rcvinfo *info)
{
    return info->rcv_ppid == htonl(END_PROTOCOL);
}

static void act(struct sock *sock, int has_arrived)
{
    const int ready = usrsctp_get_events(sock->socket);
    int error = 0;
    socklen_t len = sizeof error;
    usrsctp_getsockopt(sock->socket, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
        /* ECONNABORTED: by this end, as nothing is acknowledged, or as something came that must not. */
        const int is_late = error == ETIMEDOUT || (error == ECONNABORTED && !has_arrived);
        forget(sock, is_late ? WARPLINE_TIMED_OUT : WARPLINE_RESET);
        return;
    }
    if (!sock->is_connected && ready & SCTP_EVENT_WRITE) {
        sock->is_connected = 1;
        tell(WARPLINE_CONNECTED, sock);
    }
    if (sock->is_closed && !sock->is_end_sent)
        send_end(sock);
    if (look(sock))
        return;
    if (ready & SCTP_EVENT_READ)
        tell(WARPLINE_READABLE, sock);
    if (sock->is_more_acked || (sock->was_full && ready & SCTP_EVENT_WRITE)) {
        sock->is_more_acked = sock->was_full = 0;
        tell(WARPLINE_WRITABLE, sock);
    }
}

/* Takes the associations that others have opened. */
static void take_all(struct listener *listener)
{
    struct sockaddr_conn from;
    socklen_t len = sizeof from;
    struct socket *socket;
    while ((socket = usrsctp_accept(listener->socket, (struct sockaddr *)&from, &len)) != NULL) {
        const struct warpline_address remote = {.ip = (uint32_t)(uintptr_t)from.sconn_addr, .port = ntohs(from.sconn_port)};
        struct sock *sock = add(socket, remote.ip, remote.port, listener->port);
        if (sock == NULL) {
            usrsctp_close(socket);
            continue;
        }
        usrsctp_set_non_blocking(socket, 1);
        sock->is_connected = 1;
        callbacks.event(callbacks.context, WARPLINE_ACCEPTED, sock->at.id, listener->port, &remote);
        wake(sock);
        len = sizeof from;
    }
}

void settle(int has_arrived)
{
    for (struct listener *listener = listeners; listener != NULL; listener = listener->next)
        if (listener->is_awake) {
            listener->is_awake = 0;
            take_all(listener);
        }
    while (awake != NULL) {
        struct sock *sock = awake;
        awake = sock->next_awake;
        sock->is_awake = 0;
        act(sock, has_arrived);
    }
}
