/* A minimal kernel that tests the shim's network device in dilated time. Like User-Mode Linux, it turns its interrupts off, notes a
 * signal that comes then, serves it when they are on again, and otherwise sleeps in its idle wait. It has no timer, so it hangs if it
 * misses an interrupt. It sends back what it receives. The tests of crates/guest/src/nic.rs run it and act as the Driver; they name the
 * page in WARPLINE_CLOCKSHIM.
 */
#include "../shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../ring.h"

enum { BATCH = 64, FRAME = 2048, IRQ_SPINS = 4096 };

static int epoll;
static volatile sig_atomic_t enabled = 1, pending, scheduled;
static unsigned char frames[BATCH][FRAME];

/* Checks the devices, as arch/um/kernel/irq.c does. */
static void serve(void)
{
    struct epoll_event event;
    while (epoll_wait(epoll, &event, 1, 0) > 0)
        scheduled = 1;
}

static void enable(void)
{
    enabled = 1;
    while (pending) {
        pending = 0;
        enabled = 0;
        serve();
        enabled = 1;
    }
}

static void interrupt(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    if (!enabled) {
        pending = 1;
        return;
    }
    enabled = 0;
    int error = errno;
    serve();
    errno = error;
    enable();
}

/* The idle wait of arch/um/os-Linux/time.c, without a timer. */
static void idle(void)
{
    sigset_t alarm, before;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, &before);
    sigsuspend(&before);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
}

/* Sends back what has come; returns false if there was nothing. A frame of one byte ends the program. */
static bool echo(void)
{
    struct mmsghdr messages[BATCH] = {0};
    struct iovec parts[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){frames[i], FRAME};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(page->nic, messages, BATCH, 0, NULL);
    if (count <= 0)
        return false;
    for (int i = 0; i < count; i++) {
        if (messages[i].msg_len == 1)
            exit(0);
        parts[i].iov_len = messages[i].msg_len;
    }
    sendmmsg(page->nic, messages, (unsigned)count, 0);
    return true;
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!page || page->mode != MODE_DILATED)
        return 2;
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, page->nic, &event) != 0)
        return 3;
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    if (fcntl(page->nic, F_SETOWN, getpid()) != 0 || fcntl(page->nic, F_SETFL, O_ASYNC | O_NONBLOCK) != 0)
        return 4;
    /* Frames may have come before the signals were enabled. */
    scheduled = 1;
    unsigned state = 1;
    for (;;) {
        if (scheduled) {
            /* An interrupt during this sets it again. */
            scheduled = 0;
            if (echo())
                scheduled = 1;
            continue;
        }
        enabled = 0;
        /* A signal that comes here must not be missed. */
        state = state * 1103515245u + 12345u;
        for (unsigned spins = (state >> 16) % IRQ_SPINS; spins > 0 && !pending; spins--)
            if (spins % 512 == 0)
                sched_yield(); /* the Driver may be on the same core */
            else
                __builtin_ia32_pause();
        if (!scheduled)
            idle();
        enable();
    }
}
