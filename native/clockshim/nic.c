/* The guest's network device. Frames go through the page's rings instead of a descriptor.
 *
 * The kernel drives it as it drives a socket: sendmmsg and writev to transmit, recvmmsg and readv to receive, epoll to learn that
 * there is something. In lock-step the descriptor behind it is never touched, and no other descriptor is ever said to be ready: that
 * would depend on the host's time. In dilated time it is a bell: whoever puts a frame into an empty ring writes a byte to it, which
 * raises SIGIO in the kernel and wakes the Driver. Frames carry the instant at which they were sent.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring.h"

static void *epoll_data;
static bool registered;
/* A frame has become visible since epoll_wait last reported one. */
static bool pending;
/* Position in the receive ring of the frame that was reported last. The kernel then takes frames until none is due. */
static uint32_t told = UINT32_MAX;

static bool is_nic(int fd)
{
    shim_init();
    return page && fd == page->nic;
}

bool nic_due(void)
{
    struct record *first = ring_first(&page->receive);
    if (!first || first->time > now || page->receive.tail == told)
        return false;
    told = page->receive.tail;
    pending = true;
    return true;
}

uint64_t nic_next(void)
{
    struct record *first = ring_first(&page->receive);
    if (!first || page->receive.tail == told)
        return NEVER;
    return first->time;
}

/* Dilated: the Driver has something to read. */
static void ring_bell(void)
{
    static const char byte;
    /* A full socket already contains bells. */
    libc.syscall(SYS_sendto, page->nic, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
    /* Counted only when it can be read: a bell that was counted earlier would stay in the socket until the next. */
    __atomic_fetch_add(&page->bells_out, 1, __ATOMIC_SEQ_CST);
}

/* Dilated: takes the bells that the Driver has rung. */
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

/* The transmit ring is full: the guest waits for its device. */
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

/* Returns whether the Driver needs a notice. */
static bool transmit(const struct iovec *parts, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (length > FRAME_MAX)
        return false;
    struct record *record = ring_reserve(&page->transmit, (uint32_t)length);
    while (!record) {
        wait_for_room();
        record = ring_reserve(&page->transmit, (uint32_t)length);
    }
    record->time = clock_now();
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(record->frame + at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    bool first = ring_commit(&page->transmit, record, lockstep());
    page->sent++;
    if (!lockstep())
        return first;
    /* The horizon does not take the effects of this frame into account. */
    uint64_t answer = page->lookahead < NEVER - now ? now + page->lookahead : NEVER;
    if (answer < page->horizon)
        page->horizon = answer;
    return false;
}

/* Takes the first frame that has arrived; -1 if there is none. */
static ssize_t receive(const struct iovec *parts, size_t count)
{
    struct record *record = ring_first(&page->receive);
    if (!record && !lockstep()) {
        hear_bells();
        /* Frames that came before the bells were read ring no more. */
        record = ring_first(&page->receive);
    }
    if (!record || (lockstep() && record->time > now)) {
        /* The frames in the ring are due later, and will be reported. */
        told = page->receive.tail - 1;
        return -1;
    }
    size_t at = 0;
    for (size_t i = 0; i < count && at < record->length; i++) {
        size_t part = record->length - at < parts[i].iov_len ? record->length - at : parts[i].iov_len;
        if (parts[i].iov_base)
            memcpy(parts[i].iov_base, record->frame + at, part);
        at += part;
    }
    ring_release(&page->receive, record, lockstep());
    page->received++;
    return (ssize_t)at;
}

INTERPOSE int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (!is_nic(fd))
        return libc.sendmmsg(fd, messages, count, flags);
    bool tell = false;
    for (unsigned i = 0; i < count; i++)
        tell |= transmit(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen);
    if (tell)
        ring_bell();
    return (int)count;
}

INTERPOSE int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    if (!is_nic(fd))
        return libc.recvmmsg(fd, messages, count, flags, timeout);
    unsigned taken = 0;
    while (taken < count) {
        struct msghdr *message = &messages[taken].msg_hdr;
        ssize_t length = receive(message->msg_iov, message->msg_iovlen);
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
    if (!is_nic(fd))
        return libc.writev(fd, parts, count);
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (transmit(parts, (size_t)count))
        ring_bell();
    return (ssize_t)length;
}

INTERPOSE ssize_t readv(int fd, const struct iovec *parts, int count)
{
    if (!is_nic(fd))
        return libc.readv(fd, parts, count);
    ssize_t length = receive(parts, (size_t)count);
    if (length < 0)
        errno = EAGAIN;
    return length;
}

INTERPOSE int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (!is_nic(fd) || !lockstep())
        return libc.epoll_ctl(epoll, operation, fd, event);
    registered = operation != EPOLL_CTL_DEL;
    if (registered) {
        epoll_data = event->data.ptr;
        /* Frames that came before are reported again. */
        told = page->receive.tail - 1;
    }
    return 0;
}

INTERPOSE int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    if (!lockstep())
        return libc.epoll_wait(epoll, events, count, timeout);
    if (!registered || !pending || count < 1)
        return 0;
    pending = false;
    events[0].data.ptr = epoll_data;
    events[0].events = EPOLLIN;
    return 1;
}

/* A descriptor that raises SIGIO when the host likes breaks lock-step. */
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
