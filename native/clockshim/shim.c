/* Start of the shim: finds libc's functions and the page.
 *
 * The page's descriptor is named by WARPLINE_CLOCKSHIM. Without it (a helper program that the kernel starts inherits LD_PRELOAD)
 * every function is libc's own.
 */
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct libc libc;
struct page *page;

static void fail(const char *why)
{
    static const char who[] = "clockshim: ";
    ssize_t ignored = write(STDERR_FILENO, who, sizeof who - 1);
    ignored = write(STDERR_FILENO, why, strlen(why));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    _exit(125);
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        fail("libc lacks a function that a guest kernel needs");
    return found;
}

static void find_libc(void)
{
    /* POSIX lets an object pointer stand for a function's. */
#define FIND(name) *(void **)&libc.name = next(#name)
    FIND(clock_gettime);
    FIND(timer_create);
    FIND(timer_settime);
    FIND(timer_gettime);
    FIND(sigaction);
    FIND(sigprocmask);
    FIND(sigsuspend);
    FIND(sendmmsg);
    FIND(recvmmsg);
    FIND(writev);
    FIND(readv);
    FIND(epoll_ctl);
    FIND(epoll_wait);
    FIND(getrandom);
    FIND(ptrace);
    FIND(waitpid);
    FIND(clone);
    FIND(syscall);
    FIND(socket);
    FIND(bind);
    FIND(setsockopt);
    FIND(ioctl);
    FIND(close);
#undef FIND
}

static void map_page(int fd)
{
    void *memory = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        fail("the page cannot be mapped");
    struct page *mapped = memory;
    if (mapped->magic != PAGE_MAGIC || mapped->version != PAGE_VERSION)
        fail("the page is of another version of Warpline");
    if (mapped->mode == MODE_LOCKSTEP && mapped->cost == 0)
        fail("entries into user mode must cost time, or a program that polls would never let time move");
    if (mapped->mode == MODE_DILATED && mapped->pace.current.tdf == 0)
        fail("the time dilation factor must be above 0");
    page = mapped;
}

void shim_init(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    find_libc();
    const char *fd = getenv("WARPLINE_CLOCKSHIM");
    if (!fd)
        return;
    map_page(atoi(fd));
    now = page->now;
    page->started = 1;
}

__attribute__((constructor)) static void start(void)
{
    shim_init();
}

/* The offset of each field of the page, for the test that compares the layout with the Driver's. */
INTERPOSE const uint32_t clockshim_layout[] = {
    offsetof(struct page, magic),     offsetof(struct page, version),   offsetof(struct page, mode),
    offsetof(struct page, seed),      offsetof(struct page, epoch),     offsetof(struct page, cost),
    offsetof(struct page, nic),       offsetof(struct page, spin),      offsetof(struct page, sequence),
    offsetof(struct page, tsc),       offsetof(struct page, pace),      offsetof(struct page, bells_in),  offsetof(struct page, bells_out),
    offsetof(struct page, turn),      offsetof(struct page, reason),
    offsetof(struct page, now),       offsetof(struct page, timer),     offsetof(struct page, horizon),
    offsetof(struct page, interval),  offsetof(struct page, lookahead), offsetof(struct page, entries),   offsetof(struct page, push),
    offsetof(struct page, user),      offsetof(struct page, started),   offsetof(struct page, handovers),
    offsetof(struct page, sent),      offsetof(struct page, received),  offsetof(struct page, xstate_skipped),
    offsetof(struct page, devices),   offsetof(struct page, transmit),  offsetof(struct page, receive),
    offsetof(struct page, receive.bytes), offsetof(struct page, receive.data),
    sizeof(struct page),
};
