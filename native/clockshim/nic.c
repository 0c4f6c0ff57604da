/* The guest's network devices. Frames go through the page's rings instead of descriptors.
 *
 * The kernel uses them like sockets: sendmmsg and writev to transmit, recvmmsg and readv to receive, epoll to learn of incoming frames. In
 * lock-step, the descriptors behind them are never used, and no other descriptor is ever reported ready, because that would depend on the
 * host's time. In dilated time, the first descriptor is a bell: a side that puts a frame into an empty ring writes a byte to it, which
 * raises SIGIO in the kernel or wakes the Driver; the others are copies of it. Each frame carries the time at which it was sent.
 *
 * Devices besides the first are the interfaces of hosts that forward (wire.c), and network cards with offloads, which the kernel opens as packet
 * sockets (sockets.c) and whose frames have a header of their own for the kernel (card.h). The rings hold the frames of all devices, in the
 * order of their times.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "card.h"
#include "ring.h"
#include "sockets.h"
#include "wire.h"

/* What the kernel wants to hear of each device, and by which descriptor: a network card has another one to transmit. */
static struct {
    void *data;
    bool registered;
    int fd;
} listeners[1 + DEVICES];

/* Whether a frame has become visible since epoll_wait last reported one, and the device that it is for. */
static bool pending;
static unsigned pending_for;
/* Position in the receive ring of the frame last reported. After a report, the kernel takes frames until none is due. */
static uint32_t told = UINT32_MAX;
/* Lock-step: when a frame was last reported. */
static uint64_t interrupted;

/* The number of the device behind a descriptor, 0 for the first one; negative for other descriptors. */
static int device_of(int fd)
{
    shim_init();
    if (!page)
        return -1;
    if (fd == page->nic)
        return 0;
    int device = wire_of(fd);
    return device < 0 ? sockets_device(fd) : device;
}

/* The first frame, without those of devices that the kernel has closed. */
static struct record *first_frame(void)
{
    struct record *first = ring_first(&page->receive);
    while (first) {
        unsigned owner = wire_owner(first);
        if (owner == 0 || listeners[owner].registered)
            break;
        ring_release(&page->receive, first, lockstep());
        first = ring_first(&page->receive);
    }
    return first;
}

/* When a frame in the ring is reported. Frames that come soon after an interrupt wait for the next one, which comes an interval later: a
 * network card spares the kernel an interrupt for each frame (ethtool's rx-usecs, with Intel's meaning: a least time between interrupts). */
static uint64_t visible(const struct record *record)
{
    if (page->interval == 0 || record->time <= interrupted)
        return record->time;
    uint64_t next = interrupted + page->interval;
    return record->time > next ? record->time : next;
}

bool nic_due(void)
{
    struct record *first = first_frame();
    if (!first || page->receive.tail == told || visible(first) > now)
        return false;
    told = page->receive.tail;
    interrupted = now;
    pending = true;
    pending_for = wire_owner(first);
    return true;
}

uint64_t nic_next(void)
{
    struct record *first = ring_first(&page->receive);
    if (!first || page->receive.tail == told)
        return NEVER;
    return visible(first);
}

/* Dilated: notifies the Driver that there is something to read. */
static void ring_bell(void)
{
    static const char byte;
    /* If the socket is full, it already holds bells. */
    libc.syscall(SYS_sendto, page->nic, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
    /* Counted only now that it can be received: otherwise the Driver might look for it too early, and it would stay unread. */
    __atomic_fetch_add(&page->bells_out, 1, __ATOMIC_SEQ_CST);
}

/* Dilated: reads the Driver's bells. */
static void hear_bells(void)
{
    static uint64_t heard;
    char bytes[64];
    uint64_t rung = __atomic_load_n(&page->bells_in, __ATOMIC_SEQ_CST);
    if (rung == heard)
        return;
    heard = rung;
    while (libc.syscall(SYS_recvfrom, page->nic, bytes, sizeof bytes, MSG_DONTWAIT, NULL, NULL) == sizeof bytes)
        ;
}

/* Waits until a full transmit ring has room. */
static void wait_for_room(void)
{
    if (lockstep()) {
        turn_flush();
        return;
    }
    const struct timespec moment = {0, 20000};
    ring_bell();
    libc.syscall(SYS_nanosleep, &moment, NULL);
}

/* The wire of a device is busy. The kernel's driver then asks again and again. The first answer to each device comes at once, since the kernel may
 * have other things to do: in lock-step the first at each instant, in dilated time the first about each frame. The others wait, like an idle
 * kernel, for an interrupt or the first wire that a device waits for. */
static void wait_for_wire(unsigned device)
{
    if (wire_asks(device, lockstep() ? now : wire_free(device)))
        return;
    uint64_t until = wire_next(clock_now());
    if (!lockstep()) {
        clock_sleep(until);
        return;
    }
    unsigned events = turn_poll(until);
    if (events & EVENT_FRAME)
        raise(SIGIO);
    if (events & EVENT_TIMER)
        raise(SIGALRM);
}

/* Room for a frame. */
static struct record *reserve(size_t length)
{
    struct record *record = ring_reserve(&page->transmit, (uint32_t)length);
    while (!record) {
        wait_for_room();
        record = ring_reserve(&page->transmit, (uint32_t)length);
    }
    return record;
}

/* Sends the frame in a record from a device. Returns whether to notify the Driver. */
static bool commit(unsigned device, struct record *record)
{
    /* Not before: in dilated time, the guest may have stood still while it wrote the frame. */
    record->time = clock_now();
    wire_occupy(device, record->time, record->length);
    bool first = ring_commit(&page->transmit, record, lockstep());
    page->sent++;
    if (!lockstep())
        return first;
    /* The horizon does not take into account what this frame may lead to. */
    uint64_t answer = page->lookahead < NEVER - now ? now + page->lookahead : NEVER;
    if (answer < page->horizon)
        page->horizon = answer;
    return false;
}

/* Sends what the kernel gives to a network card: a frame, or a TCP segment that is cut into many. */
static bool transmit_card(unsigned device, const struct iovec *parts, size_t count)
{
    struct cut cut;
    bool tell = false;
    if (!cut_begin(&cut, parts, count))
        return false;
    for (size_t length = cut_length(&cut); length > 0; length = cut_length(&cut)) {
        size_t tag = wire_tag(device);
        if (length + tag > FRAME_MAX)
            return tell;
        struct record *record = reserve(length + tag);
        cut_next(&cut, record->frame, tag);
        wire_write_tag(device, record->frame + WIRE_ADDRESSES);
        tell |= commit(device, record);
    }
    return tell;
}

/* Sends a frame from a device. Returns whether to notify the Driver. */
static bool transmit(unsigned device, const struct iovec *parts, size_t count)
{
    if (wire_is_card(device))
        return transmit_card(device, parts, count);
    size_t length = wire_tag(device);
    for (size_t i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (length > FRAME_MAX)
        return false;
    struct record *record = reserve(length);
    wire_write(device, record, parts, count);
    return commit(device, record);
}

/* The first frame, if it has arrived and is for this device. */
static struct record *arrived(unsigned device)
{
    struct record *record = first_frame();
    if (!record && !lockstep()) {
        hear_bells();
        /* A frame that came before the bells were read will ring none, so look again. */
        record = first_frame();
    }
    if (!record || (lockstep() && record->time > now)) {
        /* What is in the ring now arrives later; it will be reported then. */
        told = page->receive.tail - 1;
        return NULL;
    }
    unsigned owner = wire_owner(record);
    if (owner != device) {
        /* Another device's turn. In lock-step it is reported as soon as the kernel waits. */
        told = page->receive.tail - 1;
        if (!lockstep() && !pending) {
            pending = true;
            pending_for = owner;
            raise(SIGIO);
        }
        return NULL;
    }
    return record;
}

/* Receives the first frame that has arrived, if it is for this device; returns its length, or -1 if there is none. */
static ssize_t receive(unsigned device, const struct iovec *parts, size_t count)
{
    struct record *record = arrived(device);
    if (!record)
        return -1;
    ssize_t length = wire_read(device, record, parts, count);
    ring_release(&page->receive, record, lockstep());
    page->received++;
    return length;
}

INTERPOSE int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    int device = device_of(fd);
    if (device < 0)
        return libc.sendmmsg(fd, messages, count, flags);
    bool tell = false;
    unsigned sent = 0;
    while (sent < count && wire_free((unsigned)device) <= clock_now()) {
        const struct msghdr *message = &messages[sent].msg_hdr;
        tell |= transmit((unsigned)device, message->msg_iov, message->msg_iovlen);
        sent++;
    }
    if (tell)
        ring_bell();
    if (sent == 0 && count > 0) {
        wait_for_wire((unsigned)device);
        errno = EAGAIN;
        return -1;
    }
    return (int)sent;
}

INTERPOSE int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    int device = device_of(fd);
    if (device < 0)
        return libc.recvmmsg(fd, messages, count, flags, timeout);
    unsigned taken = 0;
    while (taken < count) {
        struct msghdr *message = &messages[taken].msg_hdr;
        ssize_t length = receive((unsigned)device, message->msg_iov, message->msg_iovlen);
        if (length < 0)
            break;
        messages[taken].msg_len = (unsigned)length;
        taken++;
    }
    if (taken == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (int)taken;
}

INTERPOSE ssize_t writev(int fd, const struct iovec *parts, int count)
{
    int device = device_of(fd);
    if (device < 0)
        return libc.writev(fd, parts, count);
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (transmit((unsigned)device, parts, (size_t)count))
        ring_bell();
    return (ssize_t)length;
}

INTERPOSE ssize_t readv(int fd, const struct iovec *parts, int count)
{
    int device = device_of(fd);
    if (device < 0)
        return libc.readv(fd, parts, count);
    ssize_t length = receive((unsigned)device, parts, (size_t)count);
    if (length < 0)
        errno = EAGAIN;
    return length;
}

INTERPOSE int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    int device = device_of(fd);
    bool closes = operation == EPOLL_CTL_DEL;
    if (device >= 0 && closes ? listeners[device].fd == fd : device >= 0 && event->events & EPOLLIN) {
        listeners[device].registered = !closes;
        if (!closes) {
            listeners[device].data = event->data.ptr;
            listeners[device].fd = fd;
            /* Frames that came before are reported again. */
            told = page->receive.tail - 1;
        }
    }
    return device >= 0 && lockstep() ? 0 : libc.epoll_ctl(epoll, operation, fd, event);
}

INTERPOSE int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    shim_init();
    int found = lockstep() ? 0 : libc.epoll_wait(epoll, events, count, timeout);
    if (!page || !pending || found < 0 || found >= count || !listeners[pending_for].registered)
        return found;
    pending = false;
    events[found].data.ptr = listeners[pending_for].data;
    events[found].events = EPOLLIN;
    return found + 1;
}

/* In lock-step no descriptor may raise SIGIO: it would come at a time of the host. */
static int set_flags(int fd, int command, long argument)
{
    if (command == F_SETFL && lockstep())
        argument &= ~(long)O_ASYNC;
    return (int)libc.syscall(SYS_fcntl, fd, command, argument);
}

INTERPOSE int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    return set_flags(fd, command, argument);
}

INTERPOSE int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    return set_flags(fd, command, argument);
}
