/* What libslirp takes for the machine's sockets: our ends of its connections.
 *
 * Of the system's calls it gets those that a stream needs, and these do what the kernel would with a socket that does not block. All others are
 * refused: there are no datagrams, files or processes for it. */

#define _GNU_SOURCE

#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "library.h"

/* The first descriptor: none that the process has, so that one in a message is known for ours. */
#define FIRST (1 << 20)
/* The descriptor that listens. There is one at a time, for the time of a connect. */
#define LISTENER (FIRST - 1)

struct sockets *sockets;

/* ---- Queues ---- */

size_t queue_put(struct queue *queue, const void *bytes, size_t len)
{
    size_t room = QUEUE_BYTES - queue->count, size = queue->size, end, piece;
    if (len > room)
        len = room;
    if (len == 0)
        return 0;
    while (size < queue->count + len)
        size = size == 0 ? 4096 : 2 * size;
    if (size > queue->size) {
        unsigned char *larger = malloc(size);
        size_t count = queue->count;
        if (larger == NULL)
            return 0;
        queue_take(queue, larger, count);
        free(queue->bytes);
        *queue = (struct queue){.bytes = larger, .count = count, .size = size};
    }
    end = (queue->first + queue->count) & (queue->size - 1);
    piece = queue->size - end;
    if (piece > len)
        piece = len;
    memcpy(queue->bytes + end, bytes, piece);
    memcpy(queue->bytes, (const unsigned char *)bytes + piece, len - piece);
    queue->count += len;
    return len;
}

size_t queue_take(struct queue *queue, void *bytes, size_t len)
{
    size_t piece;
    if (len > queue->count)
        len = queue->count;
    if (len == 0)
        return 0;
    piece = queue->size - queue->first;
    if (piece > len)
        piece = len;
    memcpy(bytes, queue->bytes + queue->first, piece);
    memcpy((unsigned char *)bytes + piece, queue->bytes, len - piece);
    queue->first = (queue->first + len) & (queue->size - 1);
    queue->count -= len;
    return len;
}

/* ---- Descriptors ---- */

struct sock *sock_of(int descriptor)
{
    if (descriptor < FIRST || (size_t)(descriptor - FIRST) >= sockets->size)
        return NULL;
    return sockets->table[descriptor - FIRST];
}

/* A descriptor that nothing has. -1 without memory. */
static int unused(void)
{
    size_t place = 0;
    while (place < sockets->size && sockets->table[place] != NULL)
        place++;
    if (place == sockets->size) {
        size_t size = place == 0 ? 4 : 2 * place;
        struct sock **larger = realloc(sockets->table, size * sizeof *larger);
        if (larger == NULL) {
            errno = ENOMEM;
            return -1;
        }
        memset(larger + place, 0, (size - place) * sizeof *larger);
        sockets->table = larger;
        sockets->size = size;
    }
    return FIRST + (int)place;
}

static void hold(int descriptor, struct sock *sock)
{
    sockets->table[descriptor - FIRST] = sock;
    sock->is_held = 1;
}

int sock_ready(int descriptor, int events)
{
    struct sock *sock = sock_of(descriptor);
    int ready = 0;
    if (descriptor == LISTENER)
        return sockets->connecting != NULL ? events & SLIRP_POLL_IN : 0;
    if (sock == NULL)
        return 0;
    if (sock->outgoing.count > 0 || sock->is_closed || sock->is_aborted)
        ready |= SLIRP_POLL_IN;
    if (sock->incoming.count < QUEUE_BYTES)
        ready |= SLIRP_POLL_OUT;
    return sock->ready = ready & events;
}

void sockets_free(struct sockets *own)
{
    free(own->table);
    *own = (struct sockets){0};
}

/* ---- The calls ---- */

static int refuse(void)
{
    errno = EPERM;
    return -1;
}

static int own_socket(int domain, int type, int protocol)
{
    (void)protocol;
    if ((type & 0xf) != SOCK_STREAM)
        return refuse();
    switch (domain) {
    case AF_INET: /* To listen, when we connect. */
        return LISTENER;
    case AF_UNIX: /* To connect, when another host has. */
        return unused();
    default:
        return refuse();
    }
}

static int own_bind(int descriptor, const struct sockaddr *address, socklen_t len)
{
    (void)address;
    (void)len;
    return descriptor == LISTENER ? 0 : refuse();
}

static int own_listen(int descriptor, int backlog)
{
    (void)backlog;
    return descriptor == LISTENER ? 0 : refuse();
}

/* The address that each connection of ours comes from: the listener's is the same, but for its port. */
static int tell(struct sockaddr *address, socklen_t *len, uint16_t port)
{
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = sockets->ip, .sin_port = port};
    memcpy(address, &own, *len < sizeof own ? *len : sizeof own);
    *len = sizeof own;
    return 0;
}

static int own_getsockname(int descriptor, struct sockaddr *address, socklen_t *len)
{
    return descriptor == LISTENER ? tell(address, len, 0) : refuse();
}

static int own_getpeername(int descriptor, struct sockaddr *address, socklen_t *len)
{
    const struct sock *sock = sock_of(descriptor);
    return sock != NULL ? tell(address, len, sock->at.local_port) : refuse();
}

static int own_accept(int listener, struct sockaddr *address, socklen_t *len)
{
    struct sock *sock = sockets->connecting;
    int descriptor;
    if (listener != LISTENER || sock == NULL) {
        errno = EAGAIN;
        return -1;
    }
    descriptor = unused();
    if (descriptor < 0)
        return -1;
    sockets->connecting = NULL;
    hold(descriptor, sock);
    tell(address, len, sock->at.local_port);
    return descriptor;
}

/* The path is the number of the port that another host has connected to. */
static int own_connect(int descriptor, const struct sockaddr *address, socklen_t len)
{
    const struct sockaddr_un *path = (const void *)address;
    struct sock *sock;
    (void)len;
    if (address->sa_family != AF_UNIX || descriptor < FIRST || sock_of(descriptor) != NULL)
        return refuse();
    sock = on_connect((uint16_t)atoi(path->sun_path));
    if (sock == NULL) {
        errno = ECONNREFUSED;
        return -1;
    }
    hold(descriptor, sock);
    return 0;
}

static ssize_t own_recv(int descriptor, void *bytes, size_t len, int flags)
{
    struct sock *sock = sock_of(descriptor);
    size_t taken;
    (void)flags;
    if (sock == NULL)
        return refuse();
    if (sock->is_aborted) {
        errno = ECONNRESET;
        return -1;
    }
    taken = queue_take(&sock->outgoing, bytes, len);
    if (taken > 0) {
        on_taken(sock);
        return (ssize_t)taken;
    }
    if (sock->is_closed)
        return 0;
    errno = EAGAIN;
    return -1;
}

/* What is urgent is as all else, as with SO_OOBINLINE. */
static ssize_t own_send(int descriptor, const void *bytes, size_t len, int flags)
{
    struct sock *sock = sock_of(descriptor);
    size_t put;
    (void)flags;
    if (sock == NULL)
        return refuse();
    put = queue_put(&sock->incoming, bytes, len);
    if (put > 0) {
        on_arrived(sock);
        return (ssize_t)put;
    }
    if (len == 0)
        return 0;
    errno = EAGAIN;
    return -1;
}

/* Of the two directions (SHUT_RD, SHUT_WR), the second is the one in which bytes arrive. */
static int own_shutdown(int descriptor, int how)
{
    struct sock *sock = sock_of(descriptor);
    if (sock == NULL)
        return refuse();
    if (how != SHUT_RD && !sock->is_finished) {
        sock->is_finished = 1;
        on_finished(sock);
    }
    return 0;
}

static int own_close(int descriptor)
{
    struct sock *sock = sock_of(descriptor);
    if (sock == NULL)
        return 0;
    sockets->table[descriptor - FIRST] = NULL;
    sock->is_held = 0;
    on_dropped(sock);
    return 0;
}

/* The only one that is asked for is SO_ERROR. */
static int own_getsockopt(int descriptor, int level, int name, void *value, socklen_t *len)
{
    (void)descriptor;
    (void)level;
    (void)name;
    memset(value, 0, *len);
    return 0;
}

static int own_setsockopt(int descriptor, int level, int name, const void *value, socklen_t len)
{
    (void)descriptor;
    (void)level;
    (void)name;
    (void)value;
    (void)len;
    return 0;
}

/* It makes sockets non-blocking, as ours are. */
static int own_fcntl(int descriptor, int command, ...)
{
    (void)descriptor;
    (void)command;
    return 0;
}

/* It is called for messages that are not printed. */
static int own_getnameinfo(const struct sockaddr *address, socklen_t len, char *host, socklen_t host_len, char *service, socklen_t service_len,
                           int flags)
{
    (void)address;
    (void)len;
    (void)flags;
    if (host_len > 0)
        host[0] = 0;
    if (service_len > 0)
        service[0] = 0;
    return 0;
}

static void *refuse_pointer(void)
{
    errno = EPERM;
    return NULL;
}

/* ---- Assertions and messages ---- */

static void own_assertion(const char *domain, const char *path, int line, const char *function, const char *what)
{
    (void)domain;
    (void)path;
    (void)line;
    (void)function;
    on_failure(what);
}

static void own_assert_fail(const char *what, const char *path, unsigned line, const char *function)
{
    (void)path;
    (void)line;
    (void)function;
    on_failure(what);
}

/* Messages of GLib: one at the level "error" (4) ends the program there. */
static void own_log(const char *domain, int level, const char *format, ...)
{
    (void)domain;
    if (level & 4)
        on_failure(format);
}

static void own_warning(void)
{
}

#define CALL(name, function) {name, (void *)(uintptr_t)(function), 1}
#define PERHAPS(name, function) {name, (void *)(uintptr_t)(function), 0}

const struct replacement replacements[] = {
    CALL("socket", own_socket),
    CALL("bind", own_bind),
    CALL("listen", own_listen),
    CALL("accept", own_accept),
    CALL("connect", own_connect),
    CALL("recv", own_recv),
    CALL("send", own_send),
    CALL("shutdown", own_shutdown),
    CALL("close", own_close),
    CALL("getsockname", own_getsockname),
    PERHAPS("getpeername", own_getpeername),
    PERHAPS("getsockopt", own_getsockopt),
    CALL("setsockopt", own_setsockopt),
    PERHAPS("fcntl", own_fcntl),
    PERHAPS("fcntl64", own_fcntl),
    PERHAPS("getnameinfo", own_getnameinfo),
    CALL("sendto", refuse),
    CALL("recvfrom", refuse),
    PERHAPS("sendmsg", refuse),
    PERHAPS("recvmsg", refuse),
    PERHAPS("ioctl", refuse),
    PERHAPS("open", refuse),
    PERHAPS("open64", refuse),
    PERHAPS("read", refuse),
    PERHAPS("stat", refuse),
    PERHAPS("stat64", refuse),
    PERHAPS("fopen", refuse_pointer),
    PERHAPS("fopen64", refuse_pointer),
    PERHAPS("if_nametoindex", refuse_pointer),
    PERHAPS("g_spawn_async_with_fds", refuse_pointer),
    PERHAPS("__assert_fail", own_assert_fail),
    PERHAPS("g_assertion_message_expr", own_assertion),
    PERHAPS("g_log", own_log),
    PERHAPS("g_warn_message", own_warning),
    {NULL, NULL, 0},
};
