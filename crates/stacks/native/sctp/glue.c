/* SCTP as a stack of Warpline: usrsctp, which is FreeBSD's SCTP for programs, behind warpline_stack.h.
 *
 * usrsctp has a family of addresses whose packets are bytes in memory (AF_CONN). An address of it is a pointer, which usrsctp never follows: here it
 * is the other host's address of IPv4. Around each packet, the header of IPv4 is written and read here. The checksum is made and looked at here, too,
 * as a network card would do it; so all that follows sees whole packets only.
 *
 * A socket of Warpline's is an association with one stream in each direction. What is written goes in messages that fill a packet. That an end has
 * closed is a message of its own (host.c); when both have come, the association is shut down. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../ipv4.h"
#include "host.h"

/* The first of the local ports that are chosen (RFC 6335 section 6), and their number. */
#define FIRST_PORT 49152
#define PORTS 16384
/* Handshakes at a port that were not accepted: they are at once. */
#define BACKLOG 128
/* usrsctp takes no path for less than 512 bytes of chunks (SCTP_SMALLEST_PMTU). */
#define LEAST_MTU (IPV4_HEADER + SCTP_HEADER + 512u)

/* usrsctp's congestion controls by their numbers. The first is the default. */
static const char *const controls[] = {
    [SCTP_CC_RFC2581] = "rfc2581",
    [SCTP_CC_HSTCP] = "hstcp",
    [SCTP_CC_HTCP] = "htcp",
    [SCTP_CC_RTCC] = "rtcc",
};
#define CONTROLS (sizeof controls / sizeof *controls)
/* The option with which a socket gets one. The header has the names of the controls, but not the option (netinet/sctp.h of FreeBSD). */
#ifndef SCTP_PLUGGABLE_CC
#define SCTP_PLUGGABLE_CC 0x00001202
#endif

/* Counts the datagrams (the field for fragments). */
static uint16_t identification;

uint32_t warpline_stack_abi(void)
{
    return WARPLINE_STACK_ABI;
}

uint32_t warpline_stack_flags(void)
{
    return 0;
}

/* The address of another host, as usrsctp has it. */
static void *pointer(uint32_t ip)
{
    return (void *)(uintptr_t)ip;
}

static struct sockaddr_conn at(uint32_t ip, uint16_t port)
{
    return (struct sockaddr_conn){.sconn_family = AF_CONN, .sconn_port = htons(port), .sconn_addr = pointer(ip)};
}

/* Makes an address known to usrsctp, which takes packets from known ones only: it takes their address for this end's, too (usrsctp_conninput). */
static void meet(uint32_t ip)
{
    usrsctp_register_address(pointer(ip));
}

/* usrsctp sends a packet. */
static int send_packet(void *address, void *bytes, size_t len, uint8_t tos, uint8_t is_whole)
{
    unsigned char datagram[65535];
    const uint32_t to = (uint32_t)(uintptr_t)address;
    struct packet packet;
    struct sock *sock;
    if (len > sizeof datagram - IPV4_HEADER || !packet_read(&packet, bytes, len))
        return EMSGSIZE;
    sock = find_address(to, packet.to_port, packet.from_port);
    if (sock != NULL)
        note_sent(sock, &packet);
    ipv4_write(datagram, IPV4_SCTP, settings.ip, to, len);
    datagram[1] = tos;
    put16(datagram + 4, identification++);
    put16(datagram + 6, is_whole ? 0x4000 : 0);
    ipv4_check(datagram);
    memcpy(datagram + IPV4_HEADER, bytes, len);
    packet_check(datagram + IPV4_HEADER, len);
    callbacks.transmit(callbacks.context, datagram, IPV4_HEADER + len);
    return 0;
}

/* Starts a call: runs the timers that are due, and tells the applications what came of them. */
static void begin(uint64_t time)
{
    system_enter(time);
    settle(0);
}

/* A buffer's size as usrsctp takes it. */
static int buffer(uint64_t size)
{
    return (int)(size < INT32_MAX ? size : INT32_MAX);
}

void *warpline_stack_new(uint64_t time, const struct warpline_config *config, const struct warpline_callbacks *given)
{
    callbacks = *given;
    if (config->mtu < LEAST_MTU) {
        callbacks.fail(callbacks.context, "SCTP needs a link that takes 544 bytes at once");
        return NULL;
    }
    settings.ip = config->ip;
    /* Chunks are padded to four bytes (RFC 9260 section 3.2). */
    settings.chunks = ((config->mtu < 65535 ? config->mtu : 65535) - IPV4_HEADER - SCTP_HEADER) & ~3u;
    settings.send_buffer = buffer(config->send_buffer);
    settings.receive_buffer = buffer(config->receive_buffer);
    /* usrsctp never takes a message that is larger than the send buffer. */
    settings.message = settings.chunks - SCTP_DATA_HEADER;
    if (settings.send_buffer > 0 && (uint32_t)settings.send_buffer < settings.message)
        settings.message = (uint32_t)settings.send_buffer;
    if (!host_begin())
        return NULL;
    system_enter(time);
    usrsctp_init_nothreads(0, send_packet, NULL);
    usrsctp_enable_crc32c_offload();
    /* Messages may fill the send buffer. */
    if (settings.send_buffer / settings.message >= usrsctp_sysctl_get_sctp_max_chunks_on_queue())
        usrsctp_sysctl_set_sctp_max_chunks_on_queue(settings.send_buffer / settings.message + 1);
    return &settings;
}

void warpline_stack_free(void *host)
{
    (void)host;
    system_free();
}

void warpline_stack_packet(void *host, uint64_t time, const void *bytes, size_t len)
{
    unsigned char datagram[65535];
    struct packet packet;
    struct chunk chunk;
    struct sock *sock;
    size_t first = SCTP_HEADER;
    (void)host;
    if (len > sizeof datagram)
        return;
    begin(time);
    if (!packet_parse(&packet, memcpy(datagram, bytes, len), len)) {
        const size_t reply = ipv4_echo(datagram, bytes, len, settings.ip);
        if (reply > 0)
            callbacks.transmit(callbacks.context, datagram, reply);
        return;
    }
    if (packet.to != settings.ip)
        return;
    sock = find_address(packet.from, packet.from_port, packet.to_port);
    /* The other end has forgotten this association, and begins another one from the same port. usrsctp would go on with it (RFC 9260 section 5.2);
     * a stream of bytes cannot. */
    if (sock != NULL && sock->is_connected && packet_next(&packet, &first, &chunk) && chunk.kind == CHUNK_INIT && sock->tag != 0 &&
        chunk.number != sock->tag) {
        reset(sock, WARPLINE_RESET);
        sock = NULL;
    }
    if (sock != NULL)
        note_arrived(sock, &packet);
    else
        meet(packet.from);
    usrsctp_conninput(pointer(packet.from), packet.bytes, packet.len, packet.ecn);
    if (sock != NULL)
        wake(sock);
    settle(1);
}

void warpline_stack_timeout(void *host, uint64_t time)
{
    (void)host;
    begin(time);
}

uint64_t warpline_stack_deadline(void *host, uint64_t time)
{
    (void)host;
    (void)time;
    return system_deadline();
}

/* The number of a congestion control; that of the default for NULL. CONTROLS if there is none of that name. */
static uint32_t control_of(const char *cc)
{
    uint32_t number = 0;
    while (cc != NULL && number < CONTROLS && strcmp(controls[number], cc) != 0)
        number++;
    return number;
}

/* Sets the congestion control of a socket's later associations. Returns whether it could be. */
static int set_control(struct socket *socket, uint32_t number)
{
    const struct sctp_assoc_value control = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = number};
    return usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_PLUGGABLE_CC, &control, sizeof control) == 0;
}

/* A new socket of usrsctp's. NULL if it cannot be made: `error` says why. */
static struct socket *open_socket(const char *cc, int *error)
{
    const int yes = 1;
    const struct sctp_initmsg streams = {.sinit_num_ostreams = 1, .sinit_max_instreams = 1};
    const struct sctp_paddrparams path = {
        .spp_address.ss_family = AF_CONN,
        .spp_flags = SPP_PMTUD_DISABLE,
        .spp_pathmtu = settings.chunks,
    };
    const uint32_t control = control_of(cc);
    struct socket *socket;
    *error = control < CONTROLS ? WARPLINE_FULL : WARPLINE_NO_CC;
    if (control == CONTROLS)
        return NULL;
    socket = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (socket == NULL)
        return NULL;
    if (usrsctp_set_non_blocking(socket, 1) == 0 &&
        (settings.send_buffer == 0 || usrsctp_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &settings.send_buffer, sizeof(int)) == 0) &&
        (settings.receive_buffer == 0 || usrsctp_setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &settings.receive_buffer, sizeof(int)) == 0) &&
        usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_RECVRCVINFO, &yes, sizeof yes) == 0 &&
        usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams) == 0 &&
        usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof path) == 0 &&
        set_control(socket, control))
        return socket;
    *error = WARPLINE_FAILED;
    usrsctp_close(socket);
    return NULL;
}

/* Binds a socket to a port of the host. Returns whether it could be. */
static int bind_to(struct socket *socket, uint16_t port)
{
    struct sockaddr_conn own = at(0, port);
    return usrsctp_bind(socket, (struct sockaddr *)&own, sizeof own) == 0;
}

/* usrsctp tells that there may be something to accept. */
static void on_opened(struct socket *socket, void *listener, int flags)
{
    (void)socket;
    (void)flags;
    ((struct listener *)listener)->is_awake = 1;
}

int warpline_stack_listen(void *host, uint64_t time, uint16_t port, const char *cc)
{
    struct listener **place = &listeners, *listener;
    int error;
    struct socket *socket;
    (void)host;
    begin(time);
    while (*place != NULL && (*place)->port != port)
        place = &(*place)->next;
    listener = *place;
    if (listener != NULL && !listener->is_gone)
        return WARPLINE_TAKEN;
    if (listener != NULL) {
        /* The earlier socket keeps the port, for its associations. */
        const uint32_t control = control_of(cc);
        if (control == CONTROLS)
            return WARPLINE_NO_CC;
        if (!set_control(listener->socket, control) || usrsctp_listen(listener->socket, BACKLOG) != 0)
            return WARPLINE_FAILED;
        listener->is_gone = 0;
        return 0;
    }
    socket = open_socket(cc, &error);
    if (socket == NULL)
        return error;
    listener = calloc(1, sizeof *listener);
    if (listener != NULL && bind_to(socket, port) && usrsctp_listen(socket, BACKLOG) == 0) {
        listener->socket = socket;
        listener->port = port;
        *place = listener;
        usrsctp_set_upcall(socket, on_opened, listener);
        return 0;
    }
    error = listener == NULL ? WARPLINE_FULL : WARPLINE_TAKEN;
    free(listener);
    usrsctp_close(socket);
    return error;
}

void warpline_stack_unlisten(void *host, uint64_t time, uint16_t port)
{
    (void)host;
    begin(time);
    for (struct listener *listener = listeners; listener != NULL; listener = listener->next)
        if (listener->port == port && !listener->is_gone) {
            listener->is_gone = 1;
            usrsctp_listen(listener->socket, 0);
        }
}

/* Binds a socket to a local port that nothing has: neither another socket nor an association that is being shut down. Returns the port; 0 if there is
 * none. */
static uint16_t bind_to_any(struct socket *socket)
{
    const uint32_t start = (uint32_t)(callbacks.random(callbacks.context) % PORTS);
    for (uint32_t step = 0; step < PORTS; step++) {
        const uint16_t port = (uint16_t)(FIRST_PORT + (start + step) % PORTS);
        if (!has_port(port) && bind_to(socket, port))
            return port;
    }
    return 0;
}

int64_t warpline_stack_connect(void *host, uint64_t time, const struct warpline_address *remote, const char *cc, struct warpline_address *local)
{
    struct sockaddr_conn to = at(remote->ip, remote->port);
    struct socket *socket;
    struct sock *sock;
    uint16_t port;
    int error;
    (void)host;
    begin(time);
    if (remote->ip == 0)
        return WARPLINE_FAILED;
    socket = open_socket(cc, &error);
    if (socket == NULL)
        return error;
    port = bind_to_any(socket);
    if (port == 0) {
        usrsctp_close(socket);
        return WARPLINE_NO_PORTS;
    }
    sock = add(socket, remote->ip, remote->port, port);
    if (sock == NULL) {
        usrsctp_close(socket);
        return WARPLINE_FULL;
    }
    local->ip = settings.ip;
    local->port = port;
    meet(remote->ip);
    if (usrsctp_connect(socket, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
        drop(sock);
        return WARPLINE_FAILED;
    }
    settle(0);
    return (int64_t)sock->at.id;
}

size_t warpline_stack_write(void *host, uint64_t time, uint64_t id, const void *bytes, size_t len)
{
    const char *next = bytes;
    struct sock *sock;
    size_t taken = 0;
    (void)host;
    begin(time);
    sock = find(id);
    if (sock == NULL || !sock->is_connected || sock->is_closed)
        return 0;
    while (taken < len) {
        struct sctp_sndinfo info = {0};
        const size_t message = len - taken < settings.message ? len - taken : settings.message;
        const ssize_t sent = usrsctp_sendv(sock->socket, next + taken, message, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
        if (sent <= 0) {
            sock->was_full = 1;
            break;
        }
        taken += (size_t)sent;
    }
    return taken;
}

size_t warpline_stack_read(void *host, uint64_t time, uint64_t id, void *buffer, size_t len)
{
    char *next = buffer;
    struct sock *sock;
    size_t copied = 0;
    (void)host;
    begin(time);
    sock = find(id);
    while (sock != NULL && sock->is_connected && copied < len) {
        struct sctp_rcvinfo info;
        socklen_t info_len = sizeof info;
        unsigned kind = SCTP_RECVV_NOINFO;
        int flags = 0;
        const ssize_t got = usrsctp_recvv(sock->socket, next + copied, len - copied, NULL, NULL, &info, &info_len, &kind, &flags);
        if (got < 0 && (errno == EWOULDBLOCK || errno == EAGAIN))
            break;
        if (got <= 0) {
            /* The association is gone. It ends well only after both ends have closed, and then nothing is left to be acknowledged. */
            forget(sock, got == 0 && sock->is_finished && sock->is_end_sent ? WARPLINE_COMPLETE : WARPLINE_RESET);
            break;
        }
        if (kind == SCTP_RECVV_RCVINFO && is_end(&info)) {
            sock->is_finished = 1;
            tell(WARPLINE_FINISHED, sock);
            look(sock);
            break;
        }
        copied += (size_t)got;
    }
    return copied;
}

void warpline_stack_close(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    (void)host;
    begin(time);
    sock = find(id);
    if (sock == NULL || sock->is_closed)
        return;
    sock->is_closed = 1;
    if (sock->is_connected)
        send_end(sock);
}

void warpline_stack_abort(void *host, uint64_t time, uint64_t id)
{
    struct sock *sock;
    (void)host;
    begin(time);
    sock = find(id);
    if (sock != NULL)
        reset(sock, WARPLINE_ABORTED);
}

int warpline_stack_info(void *host, uint64_t id, struct warpline_info *info)
{
    struct sock *sock = find(id);
    struct sctp_paddrinfo path = {0};
    socklen_t len = sizeof path;
    struct sockaddr_conn to;
    (void)host;
    if (sock == NULL)
        return WARPLINE_FAILED;
    info->acked = sock->acked;
    info->in_flight = sock->in_flight;
    to = at(sock->at.remote_ip, sock->at.remote_port);
    memcpy(&path.spinfo_address, &to, sizeof to);
    if (usrsctp_getsockopt(sock->socket, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &path, &len) == 0) {
        info->cwnd = path.spinfo_cwnd;
        /* In milliseconds; 0 before anything is measured. */
        if (path.spinfo_srtt > 0)
            info->srtt = (uint64_t)path.spinfo_srtt * 1000000;
    }
    return 0;
}
