/* netstack as a stack of Warpline: the functions of warpline_stack.h by those of netstack.go, and the callbacks after each. */

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

#include "../warpline_stack.h"

/* A host: its number in netstack.go. */
struct host {
    uint64_t number;
    struct warpline_callbacks callbacks;
};

/* Hands on what the stack has sent and what has happened. */
static void flush(struct host *host)
{
    unsigned char room[66 << 10];
    struct warpline_callbacks *callbacks = &host->callbacks;
    struct told told;
    size_t len;
    while ((len = netstack_packets(host->number, room, sizeof room)) > 0) {
        unsigned char *at = room;
        while (at < room + len) {
            uint16_t size;
            memcpy(&size, at, sizeof size);
            callbacks->transmit(callbacks->context, at + sizeof size, size);
            at += sizeof size + size;
        }
    }
    while (netstack_event(host->number, &told))
        callbacks->event(callbacks->context, told.event, told.socket, told.port, &told.remote);
}

uint32_t warpline_stack_abi(void)
{
    return WARPLINE_STACK_ABI;
}

uint32_t warpline_stack_flags(void)
{
    return WARPLINE_STACK_INSTANCES | WARPLINE_STACK_SIGNALS;
}

void *warpline_stack_new(uint64_t now, const struct warpline_config *config, const struct warpline_callbacks *callbacks)
{
    struct host *host = malloc(sizeof *host);
    (void)now;
    if (host == NULL)
        return NULL;
    host->callbacks = *callbacks;
    host->number = netstack_new(callbacks->random(callbacks->context), callbacks->random(callbacks->context), config->ip, config->mtu,
                                config->send_buffer, config->receive_buffer);
    if (host->number == 0) {
        free(host);
        return NULL;
    }
    return host;
}

void warpline_stack_free(void *own)
{
    struct host *host = own;
    netstack_free(host->number);
    free(host);
}

void warpline_stack_packet(void *own, uint64_t now, const void *packet, size_t len)
{
    struct host *host = own;
    netstack_packet(host->number, now, (void *)packet, len);
    flush(host);
}

void warpline_stack_timeout(void *own, uint64_t now)
{
    struct host *host = own;
    netstack_timeout(host->number, now);
    flush(host);
}

uint64_t warpline_stack_deadline(void *own, uint64_t now)
{
    struct host *host = own;
    (void)now;
    return netstack_deadline(host->number);
}

int warpline_stack_listen(void *own, uint64_t now, uint16_t port, const char *cc)
{
    struct host *host = own;
    int code = netstack_listen(host->number, now, port, (char *)cc);
    flush(host);
    return code;
}

void warpline_stack_unlisten(void *own, uint64_t now, uint16_t port)
{
    struct host *host = own;
    netstack_unlisten(host->number, now, port);
    flush(host);
}

int64_t warpline_stack_connect(void *own, uint64_t now, const struct warpline_address *remote, const char *cc, struct warpline_address *local)
{
    struct host *host = own;
    int64_t socket = netstack_connect(host->number, now, remote->ip, remote->port, (char *)cc, local);
    flush(host);
    return socket;
}

size_t warpline_stack_write(void *own, uint64_t now, uint64_t socket, const void *bytes, size_t len)
{
    struct host *host = own;
    size_t taken = netstack_write(host->number, now, socket, (void *)bytes, len);
    flush(host);
    return taken;
}

size_t warpline_stack_read(void *own, uint64_t now, uint64_t socket, void *buffer, size_t len)
{
    struct host *host = own;
    size_t read = netstack_read(host->number, now, socket, buffer, len);
    flush(host);
    return read;
}

void warpline_stack_close(void *own, uint64_t now, uint64_t socket)
{
    struct host *host = own;
    netstack_close(host->number, now, socket);
    flush(host);
}

void warpline_stack_abort(void *own, uint64_t now, uint64_t socket)
{
    struct host *host = own;
    netstack_abort(host->number, now, socket);
    flush(host);
}

int warpline_stack_info(void *own, uint64_t socket, struct warpline_info *info)
{
    struct host *host = own;
    return netstack_info(host->number, socket, info);
}
