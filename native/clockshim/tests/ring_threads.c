/* A ring whose writer and reader work at the same time, as in dilated time, under the thread sanitizer: nothing is read that is still
 * being written, and a reader that found the ring empty is notified of the next frame. Built and run by crates/guest/tests/clockshim.rs.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../random.h"
#include "../ring.h"

enum { FRAMES = 300000, PATIENCE = 60 };

static struct ring ring = {.bytes = RING_BYTES / 16};
static sem_t bell;

static void fail(const char *why, uint64_t number)
{
    fprintf(stderr, "frame %llu: %s\n", (unsigned long long)number, why);
    exit(1);
}

static uint32_t length_of(uint64_t number)
{
    uint64_t state = number;
    uint64_t drawn = random_next(&state);
    return drawn % 512 == 0 ? FRAME_MAX - (uint32_t)(drawn >> 32) % 4096 : (uint32_t)(drawn >> 32) % 1515;
}

static void *write_all(void *unused)
{
    for (uint64_t number = 0; number < FRAMES; number++) {
        uint32_t length = length_of(number);
        struct record *record;
        while (!(record = ring_reserve(&ring, length)))
            __builtin_ia32_pause();
        record->time = number;
        memset(record->frame, (int)(number % 251), length);
        if (ring_commit(&ring, record, false))
            sem_post(&bell);
        /* Pauses now and then, so that the reader empties the ring. */
        for (uint32_t i = number % 64 == 0 ? 2000 : 0; i > 0; i--)
            __builtin_ia32_pause();
    }
    return unused;
}

static void sleep_until_told(uint64_t number)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    while (sem_timedwait(&bell, &until) != 0)
        if (errno == ETIMEDOUT)
            fail("did not notify the reader", number);
}

int main(void)
{
    pthread_t writer;
    uint64_t slept = 0;
    sem_init(&bell, 0, 0);
    /* Positions shall pass 2^32. */
    ring.head = ring.tail = 0u - ring.bytes;
    pthread_create(&writer, NULL, write_all, NULL);
    for (uint64_t number = 0; number < FRAMES; number++) {
        struct record *record;
        while (!(record = ring_first(&ring))) {
            slept++;
            sleep_until_told(number);
        }
        if (record->time != number || record->length != length_of(number))
            fail("has another number", number);
        for (uint32_t i = 0; i < record->length; i += record->length / 7 + 1)
            if (record->frame[i] != number % 251)
                fail("has other bytes", number);
        ring_release(&ring, record, false);
    }
    pthread_join(writer, NULL);
    if (slept < 100)
        fail("the reader never had to wait", slept);
    printf("ok %d frames, the reader slept %llu times\n", FRAMES, (unsigned long long)slept);
    return 0;
}
