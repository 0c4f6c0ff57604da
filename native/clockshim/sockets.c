/* Packet sockets (packet(7)) for the kernel's driver.
 *
 * Of the driver's ways to a network, the one by packet sockets ("raw", arch/um/drivers/vector_user.c) has headers for offloads
 * (PACKET_VNET_HDR) and takes many frames in a call. It opens two sockets for each device, one to receive and one to transmit, and binds both to
 * an interface of the machine, which is found by its name. Here there is no such interface and no right to such sockets: what the driver gets
 * is a copy of the first device's descriptor, and the name says which device it is for.
 */
#include "sockets.h"

#include "shim.h"

#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two for each device. */
#define SOCKETS (2u * DEVICES)

/* Those that are open. A device of 0 is not known yet. */
static struct {
    bool open;
    int fd;
    unsigned device;
} sockets[SOCKETS];
static unsigned opened;

static int find(int fd)
{
    for (unsigned i = 0; i < SOCKETS && opened > 0; i++)
        if (sockets[i].open && sockets[i].fd == fd)
            return (int)i;
    return -1;
}

int sockets_device(int fd)
{
    int found = find(fd);
    return found >= 0 && sockets[found].device > 0 ? (int)sockets[found].device : -1;
}

INTERPOSE int socket(int domain, int type, int protocol)
{
    shim_init();
    if (!page || domain != AF_PACKET)
        return libc.socket(domain, type, protocol);
    for (unsigned i = 0; i < SOCKETS; i++) {
        if (sockets[i].open)
            continue;
        long fd = libc.syscall(SYS_dup, page->nic);
        if (fd < 0)
            return -1;
        sockets[i].open = true;
        sockets[i].fd = (int)fd;
        sockets[i].device = 0;
        opened++;
        return (int)fd;
    }
    errno = EMFILE;
    return -1;
}

INTERPOSE int close(int fd)
{
    shim_init();
    int found = find(fd);
    if (found >= 0) {
        sockets[found].open = false;
        opened--;
    }
    return libc.close(fd);
}

/* The number of the interface with this name: that of the device. */
static int index_of(int found, struct ifreq *request)
{
    size_t length = strlen(CARD_NAME);
    request->ifr_name[sizeof request->ifr_name - 1] = 0;
    int device = strncmp(request->ifr_name, CARD_NAME, length) == 0 ? atoi(request->ifr_name + length) : 0;
    if (device < 1 || device > (int)DEVICES || !page->devices[device - 1].card) {
        errno = ENODEV;
        return -1;
    }
    sockets[found].device = (unsigned)device;
    request->ifr_ifindex = device;
    return 0;
}

INTERPOSE int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    shim_init();
    int found = find(fd);
    if (found >= 0 && request == SIOCGIFINDEX)
        return index_of(found, argument);
    return libc.ioctl(fd, request, argument);
}

INTERPOSE int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    shim_init();
    return find(fd) >= 0 ? 0 : libc.bind(fd, address, length);
}

/* Headers for offloads are what the socket has; the other settings of the driver have no meaning here. */
INTERPOSE int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    shim_init();
    return find(fd) >= 0 ? 0 : libc.setsockopt(fd, level, option, value, length);
}
