/* A minimal kernel that tests the shim's timer in dilated time. Like User-Mode Linux, it may lose an alarm, and it waits only if its
 * timer is running (arch/um/os-Linux/time.c, os_idle_sleep). It makes a page and restarts itself with it.
 */
#include "../shim.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static volatile sig_atomic_t alarms;
static timer_t timer_id;

static void begin(char **arguments)
{
    int fd = memfd_create("page", 0);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct page)) == 0);
    struct page *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fresh != MAP_FAILED);
    fresh->magic = PAGE_MAGIC;
    fresh->version = PAGE_VERSION;
    fresh->mode = MODE_DILATED;
    fresh->pace = (struct pace){{0, 0, 2000000000ull}, {NEVER, 0, 1}};
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv("WARPLINE_CLOCKSHIM", number, 1);
    execv(arguments[0], arguments);
    CHECK(!"it can be started again");
}

static void on_alarm(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    alarms++;
}

static void set_timer(long nanos)
{
    struct itimerspec once = {.it_value = {0, nanos}};
    CHECK(timer_settime(timer_id, 0, &once, NULL) == 0);
}

/* The idle wait. Returns whether it waited. */
static bool idle(void)
{
    sigset_t alarm, before;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, &before);
    struct itimerspec left;
    CHECK(timer_gettime(timer_id, &left) == 0);
    bool waits = left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
    if (waits)
        sigsuspend(&before);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    return waits;
}

int main(int count, char **arguments)
{
    (void)count;
    if (!page)
        begin(arguments);
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer_id) == 0);

    /* Alarms that are ignored, as if they were lost, come again during the wait. */
    set_timer(1000000);
    while (alarms < 5)
        CHECK(idle());
    /* A timer that is set again fires at its new time, and not before. */
    uint64_t begun = clock_now();
    int before = alarms;
    set_timer(200000000);
    while (alarms == before)
        CHECK(idle());
    CHECK(clock_now() - begun >= 200000000);
    /* A timer that is off brings no alarm and no spinning: something else ends the wait. */
    set_timer(0);
    before = alarms;
    struct sigevent other = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t waker;
    CHECK(sigaction(SIGUSR1, &(struct sigaction){.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO}, NULL) == 0);
    CHECK(libc.timer_create(CLOCK_MONOTONIC, &other, &waker) == 0);
    CHECK(libc.timer_settime(waker, 0, &(struct itimerspec){.it_value = {0, 100000000}}, NULL) == 0);
    int waits = 0;
    while (alarms == before) {
        CHECK(idle());
        waits++;
    }
    CHECK(waits < 5);
    printf("ok %d alarms\n", (int)alarms);
    return 0;
}
