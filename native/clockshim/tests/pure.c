/* Tests of the pure functions of the shim. Built with sanitizers by crates/guest/tests/clockshim.rs. */
#include <stdbool.h>
#include <string.h>

#include "../random.h"
#include "../ratio.h"
#include "../ring.h"
#include "../xstate.h"
#include "check.h"

#define BILLION 1000000000ull
#define YEAR (31557600ull * BILLION)

static uint64_t state = 7;

static uint64_t draw(uint64_t below)
{
    return random_next(&state) % below;
}

/* A timer set for an instant of the guest fires when the guest's clock shows it, at most one host nanosecond late. */
static void timers_fire_on_time(void)
{
    const uint64_t factors[] = {1, 3, BILLION / 10, BILLION / 3, BILLION, BILLION + 1, 10 * BILLION, 33333333333ull, 1000 * BILLION};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        for (int n = 0; n < 10000; n++) {
            struct segment segment = {draw(YEAR), draw(YEAR), factors[i]};
            uint64_t guest = segment.guest0 + draw(factors[i] < BILLION ? 1ull << 40 : YEAR / 1000);
            uint64_t host = segment_host(&segment, guest);
            CHECK(segment_guest(&segment, host) >= guest);
            if (host > segment.host0)
                CHECK(segment_guest(&segment, host - 1) < guest || factors[i] < BILLION);
        }
    }
}

/* A thousand small steps are as long as one large step: rounding loses nothing. */
static void time_does_not_drift(void)
{
    struct segment segment = {12345, 678, 3 * BILLION};
    uint64_t last = segment.guest0;
    for (uint64_t host = segment.host0; host < segment.host0 + 3000; host++) {
        uint64_t guest = segment_guest(&segment, host);
        CHECK(guest >= last && guest - last <= 1);
        last = guest;
    }
    CHECK(segment_guest(&segment, segment.host0 + 3 * YEAR) == segment.guest0 + YEAR);
    CHECK(segment_guest(&segment, 0) == segment.guest0);
}

static void far_times_saturate(void)
{
    struct segment segment = {5, 5, 1000 * BILLION};
    CHECK(segment_host(&segment, NEVER) == NEVER);
    CHECK(ratio_to_host(NEVER, BILLION) == NEVER);
    CHECK(ratio_to_guest(NEVER, 1) == NEVER);
    CHECK(ratio_to_host(0, BILLION) == 0);
}

/* At a change of the factor, the guest's clock neither jumps nor goes back, and timers set for later still fire on time. */
static void a_change_bends_time(void)
{
    struct pace pace = {{1000, 50, 10 * BILLION}, {NEVER, 0, BILLION}};
    CHECK(pace_guest(&pace, 1000 + 70) == 57 && pace_host(&pace, 57) == 1070);
    CHECK(pace_guest(&pace, NEVER - 1) == segment_guest(&pace.current, NEVER - 1));
    pace.next = (struct segment){2000, 150, 100 * BILLION};
    uint64_t last = 0;
    for (uint64_t host = 900; host < 9000; host++) {
        uint64_t guest = pace_guest(&pace, host);
        CHECK(guest >= last && guest - last <= 51);
        last = guest;
    }
    CHECK(pace_guest(&pace, 1999) == 149 && pace_guest(&pace, 2000) == 150 && pace_guest(&pace, 2100) == 151);
    CHECK(pace_host(&pace, 149) == 1990 && pace_host(&pace, 150) == 2000 && pace_host(&pace, 151) == 2100);
}

/* Less than the rings have at most, so that it matters which of the two counts. */
#define BYTES (RING_BYTES / 16)
static struct ring ring = {.bytes = BYTES};
static unsigned char frame[FRAME_MAX];

static bool put(uint32_t length, uint64_t number)
{
    struct record *record = ring_reserve(&ring, length);
    if (!record)
        return false;
    record->time = number;
    memset(record->frame, (int)(number % 251), length);
    /* The other side does not work meanwhile, so "alone" makes no difference. */
    bool alone = number % 3 == 0;
    CHECK(!(ring_commit(&ring, record, alone) && alone));
    return true;
}

static void take(uint32_t length, uint64_t number)
{
    struct record *record = ring_first(&ring);
    CHECK(record && record->length == length && record->time == number);
    memset(frame, (int)(number % 251), length);
    CHECK(memcmp(record->frame, frame, length) == 0);
    ring_release(&ring, record, number % 5 == 0);
}

/* Frames come out of a ring in the order in which they went in, after any number of rounds, and no more go in than fit. */
static void rings_keep_frames(void)
{
    enum { WINDOW = 1 << 16 };
    static uint32_t lengths[WINDOW];
    uint64_t in = 0, out = 0, full = 0;
    /* Positions shall pass 2^32, too. */
    ring.head = ring.tail = 0u - BYTES;
    while (out < 200000) {
        uint32_t length = (uint32_t)draw(draw(4) ? 1515 : FRAME_MAX + 1);
        if (in - out < WINDOW && draw(100) >= out / 4000 + 25 && put(length, in)) {
            lengths[in++ % WINDOW] = length;
        } else if (in > out) {
            full += ring.head - ring.tail > BYTES - 2 * FRAME_MAX;
            take(lengths[out % WINDOW], out);
            out++;
        }
        CHECK(ring.head - ring.tail <= BYTES);
    }
    while (out < in) {
        take(lengths[out % WINDOW], out);
        out++;
    }
    CHECK(full > 0 && !ring_first(&ring) && ring.head == ring.tail);
    CHECK(!ring_reserve(&ring, FRAME_MAX + 1));
    CHECK(ring_reserve(&ring, FRAME_MAX));
}

/* ring_commit asks for a notification if the ring was empty, also where the ring wraps, and in no other case. */
static void only_a_frame_into_an_empty_ring_asks_for_a_notification(void)
{
    ring.head = ring.tail = 0;
    for (int n = 0; n < 20000; n++) {
        uint32_t length = (uint32_t)draw(1515);
        struct record *record = ring_reserve(&ring, length);
        CHECK(ring_commit(&ring, record, false));
        /* Sometimes more frames follow. */
        uint32_t more = ring.head % BYTES > 100000 ? (uint32_t)draw(3) : 0;
        for (uint32_t i = 0; i < more; i++) {
            record = ring_reserve(&ring, FRAME_MAX / 3);
            bool told = ring_commit(&ring, record, false);
            CHECK(!told || (ring.head - (uint32_t)((FRAME_MAX / 3 + 31) & ~15u)) % BYTES == 0);
        }
        while ((record = ring_first(&ring)))
            ring_release(&ring, record, false);
    }
}

static void random_numbers_depend_on_the_seed_alone(void)
{
    unsigned char one[20], two[20], other[20];
    uint64_t a = 1, b = 1, c = 2;
    random_fill(&a, one, sizeof one);
    random_fill(&b, two, sizeof two);
    random_fill(&c, other, sizeof other);
    CHECK(memcmp(one, two, sizeof one) == 0 && memcmp(one, other, sizeof one) != 0);
    /* The first number of SplitMix64 from 1234567. */
    uint64_t known = 1234567;
    CHECK(random_next(&known) == 6457827717110365317ull);
}

static void registers_are_written_when_they_change(void)
{
    struct xstate *state = xstate_of(41);
    CHECK(state && !state->valid);
    state->length = 100;
    state->valid = true;
    unsigned char part[200] = {0};
    CHECK(!xstate_merge(state, part, 64));
    part[63] = 1;
    CHECK(xstate_merge(state, part, 64) && state->bytes[63] == 1);
    CHECK(!xstate_merge(state, part, 64));
    /* Bytes beyond the host's state are ignored. */
    part[150] = 1;
    CHECK(!xstate_merge(state, part, sizeof part) && state->bytes[150] == 0);
    CHECK(xstate_of(41)->valid && xstate_of(42) != state);
    CHECK(xstate_of(41 + 1024) == state && !state->valid);
}

int main(void)
{
#define RUN(name) (name(), printf("ok %s\n", #name))
    RUN(timers_fire_on_time);
    RUN(time_does_not_drift);
    RUN(far_times_saturate);
    RUN(a_change_bends_time);
    RUN(rings_keep_frames);
    RUN(only_a_frame_into_an_empty_ring_asks_for_a_notification);
    RUN(random_numbers_depend_on_the_seed_alone);
    RUN(registers_are_written_when_they_change);
    return 0;
}
