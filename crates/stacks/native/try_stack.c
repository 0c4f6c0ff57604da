/* Tries a transport stack in a shared object: `try_stack FILE`.
 *
 * Two hosts of the stack send a megabyte to each other over a link that loses packets, and each byte is checked. Then they do it again while
 * damaged copies of their packets arrive, too: the connection may fail, the stack may not. Built with sanitizers, together with the stack
 * (scripts/build_stacks.py --sanitize), it finds what writes or reads where it must not. */

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warpline_stack.h"

#define BYTES (1u << 20)
#define PORT 80
#define DELAY 10000000ull
/* Virtual time after which a transfer has failed. */
#define LONGEST 600000000000ull

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* xorshift64 (Marsaglia 2003). */
static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* ---- The link ---- */

struct packet {
    struct packet *next;
    uint64_t at;
    int to;
    size_t len;
    unsigned char bytes[];
};

static struct packet *first, *last;
static uint64_t now;
static unsigned sent;
static int damages;

static void carry(int to, const void *bytes, size_t len)
{
    struct packet *packet = malloc(sizeof *packet + len);
    packet->next = NULL;
    packet->at = now + DELAY;
    packet->to = to;
    packet->len = len;
    memcpy(packet->bytes, bytes, len);
    if (last != NULL)
        last->next = packet;
    else
        first = packet;
    last = packet;
}

static uint32_t add(uint32_t sum, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum += i % 2 ? bytes[i] : bytes[i] << 8;
    return sum;
}

static void put_sum(unsigned char *at, uint32_t sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    sum = ~((sum >> 16) + sum) & 0xffff;
    at[0] = (unsigned char)(sum >> 8);
    at[1] = (unsigned char)sum;
}

/* CRC32c (RFC 9260 appendix A), bit by bit. */
static uint32_t crc32c(const unsigned char *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Changes some bytes, mostly of the headers, and puts the checksums right, so that the stack looks at the rest. */
static void damage(struct packet *packet)
{
    unsigned char *bytes = packet->bytes;
    for (unsigned count = 1 + draw() % 4; count > 0; count--)
        bytes[draw() % (packet->len < 60 ? packet->len : 60)] = (unsigned char)draw();
    if (draw() % 8 == 0)
        packet->len = draw() % (packet->len + 1);
    size_t header = packet->len > 0 ? 4 * (bytes[0] & 15u) : 0;
    if (header < 20 || packet->len < header + 20)
        return;
    memset(bytes + 10, 0, 2);
    put_sum(bytes + 10, add(0, bytes, header));
    size_t len = packet->len - header;
    if (bytes[9] == 132) {
        memset(bytes + header + 8, 0, 4);
        uint32_t crc = crc32c(bytes + header, len);
        for (int i = 0; i < 4; i++)
            bytes[header + 8 + i] = (unsigned char)(crc >> 8 * i);
    } else if (bytes[9] == 6) {
        memset(bytes + header + 16, 0, 2);
        put_sum(bytes + header + 16, add(add(6 + (uint32_t)len, bytes + 12, 8), bytes + header, len));
    }
}

/* ---- Hosts ---- */

static struct host {
    void *object, *own;
    uint64_t socket;
    size_t written, read;
    int open, finished, closed, over, changed;
    uint32_t (*abi)(void);
    void *(*make)(uint64_t, const struct warpline_config *, const struct warpline_callbacks *);
    void (*free)(void *);
    void (*packet)(void *, uint64_t, const void *, size_t);
    void (*timeout)(void *, uint64_t);
    uint64_t (*deadline)(void *, uint64_t);
    int (*listen)(void *, uint64_t, uint16_t, const char *);
    int64_t (*connect)(void *, uint64_t, const struct warpline_address *, const char *, struct warpline_address *);
    size_t (*write)(void *, uint64_t, uint64_t, const void *, size_t);
    size_t (*read_bytes)(void *, uint64_t, uint64_t, void *, size_t);
    void (*close)(void *, uint64_t, uint64_t);
    int (*info)(void *, uint64_t, struct warpline_info *);
} hosts[2];

static uint64_t random_of(void *context)
{
    (void)context;
    return draw();
}

static void transmit(void *context, const void *packet, size_t len)
{
    int from = (struct host *)context == &hosts[1];
    sent++;
    if (damages && draw() % 4 == 0) {
        carry(!from, packet, len);
        damage(last);
    }
    if (draw() % 100 > 0)
        carry(!from, packet, len);
}

static void on_event(void *context, enum warpline_event event, uint64_t socket, uint16_t port, const struct warpline_address *remote)
{
    struct host *host = context;
    (void)remote;
    host->changed = 1;
    if (event == WARPLINE_ACCEPTED && port == PORT && host->socket == 0)
        host->socket = socket;
    if (socket != host->socket)
        return;
    host->open |= event == WARPLINE_ACCEPTED || event == WARPLINE_CONNECTED;
    host->finished |= event == WARPLINE_FINISHED;
    if (event >= WARPLINE_COMPLETE)
        host->over = (int)event;
}

static void on_failure(void *context, const char *reason)
{
    (void)context;
    die("the stack has failed: %s", reason);
}

static unsigned char pattern(size_t place)
{
    return (unsigned char)(place * 2654435761u >> 16);
}

/* Does what the application of a host can do now. */
static void serve(struct host *host)
{
    static unsigned char bytes[16384];
    while (host->changed) {
        host->changed = 0;
        size_t got;
        while (!host->over && host->socket != 0 && (got = host->read_bytes(host->own, now, host->socket, bytes, sizeof bytes)) > 0)
            for (size_t i = 0; i < got; i++, host->read++)
                if (!damages && bytes[i] != pattern(host->read))
                    die("byte %zu is wrong", host->read);
        while (host->open && !host->over && host->written < BYTES) {
            size_t len = BYTES - host->written < sizeof bytes ? BYTES - host->written : sizeof bytes;
            for (size_t i = 0; i < len; i++)
                bytes[i] = pattern(host->written + i);
            size_t taken = host->write(host->own, now, host->socket, bytes, len);
            if (taken > len)
                die("%zu bytes were taken of %zu", taken, len);
            host->written += taken;
            if (taken < len)
                break;
        }
        if (host->written == BYTES && !host->closed && !host->over) {
            host->closed = 1;
            host->close(host->own, now, host->socket);
        }
        struct warpline_info info;
        if (host->socket != 0 && !host->over)
            host->info(host->own, host->socket, &info);
    }
}

/* Loads a copy of the object: each host has its own variables, as in Warpline. */
static void load(struct host *host, const char *path)
{
    char copy[] = "/tmp/try_stack.XXXXXX", block[65536];
    FILE *from = fopen(path, "rb");
    int fd = mkstemp(copy);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "wb");
    size_t len;
    if (from == NULL || to == NULL)
        die("%s cannot be copied", path);
    while ((len = fread(block, 1, sizeof block, from)) > 0)
        fwrite(block, 1, len, to);
    fclose(from);
    fclose(to);
    void *object = host->object = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    remove(copy);
    if (object == NULL)
        die("%s", dlerror());
#define FIND(field, name) (*(void **)&host->field = dlsym(object, "warpline_stack_" name))
    if (!FIND(abi, "abi") || !FIND(make, "new") || !FIND(free, "free") || !FIND(packet, "packet") || !FIND(timeout, "timeout") ||
        !FIND(deadline, "deadline") || !FIND(listen, "listen") || !FIND(connect, "connect") || !FIND(write, "write") ||
        !FIND(read_bytes, "read") || !FIND(close, "close") || !FIND(info, "info"))
        die("%s", dlerror());
    if (host->abi() != WARPLINE_STACK_ABI)
        die("%s is for another version of Warpline", path);
}

/* Lets both hosts send to each other until both sockets are gone or the time is over. Returns whether they are. */
static int transfer(const char *path)
{
    const struct warpline_address server = {.ip = 0x0200000a, .port = PORT};
    now = 1000;
    for (int i = 0; i < 2; i++) {
        struct host *host = &hosts[i];
        const struct warpline_config config = {.ip = i ? 0x0200000a : 0x0100000a, .mtu = 1500};
        const struct warpline_callbacks callbacks = {host, random_of, transmit, on_event, on_failure};
        load(host, path);
        host->socket = host->written = host->read = 0;
        host->open = host->finished = host->closed = host->over = host->changed = 0;
        host->own = host->make(now, &config, &callbacks);
        if (host->own == NULL)
            die("a host cannot be made");
    }
    if (hosts[1].listen(hosts[1].own, now, PORT, NULL) != 0)
        die("it cannot listen");
    struct warpline_address local;
    int64_t socket = hosts[0].connect(hosts[0].own, now, &server, NULL, &local);
    if (socket <= 0)
        die("it cannot connect");
    hosts[0].socket = (uint64_t)socket;
    while (now < LONGEST && !(hosts[0].over && hosts[1].over)) {
        uint64_t next = first != NULL ? first->at : WARPLINE_NEVER;
        for (int i = 0; i < 2; i++) {
            serve(&hosts[i]);
            uint64_t due = hosts[i].deadline(hosts[i].own, now);
            next = due < next ? due : next;
        }
        if (first != NULL && first->at < next)
            next = first->at;
        if (next == WARPLINE_NEVER)
            break;
        now = next > now ? next : now + 1;
        for (int i = 0; i < 2; i++)
            hosts[i].timeout(hosts[i].own, now);
        while (first != NULL && first->at <= now) {
            struct packet *packet = first;
            first = packet->next;
            if (first == NULL)
                last = NULL;
            hosts[packet->to].packet(hosts[packet->to].own, now, packet->bytes, packet->len);
            serve(&hosts[packet->to]);
            free(packet);
        }
    }
    while (first != NULL) {
        struct packet *packet = first;
        first = packet->next;
        free(packet);
    }
    last = NULL;
    int over = hosts[0].over && hosts[1].over;
    for (int i = 0; i < 2; i++) {
        hosts[i].free(hosts[i].own);
        dlclose(hosts[i].object);
    }
    return over;
}

int main(int count, char **words)
{
    if (count != 2)
        die("usage: try_stack FILE");
    if (!transfer(words[1]) || hosts[0].over != WARPLINE_COMPLETE || hosts[1].over != WARPLINE_COMPLETE)
        die("the connection did not end: events %d and %d", hosts[0].over, hosts[1].over);
    if (hosts[0].read != BYTES || hosts[1].read != BYTES)
        die("%zu and %zu bytes of %u have arrived", hosts[0].read, hosts[1].read, BYTES);
    printf("ok: each byte, %u packets\n", sent);
    damages = 1;
    int over = 0;
    for (int round = 0; round < 200; round++)
        over += transfer(words[1]);
    printf("ok: damaged packets, 200 connections of which %d ended\n", over);
    return 0;
}
