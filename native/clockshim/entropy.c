/* The randomness that the kernel gets from the host. Lock-step: from the run's seed. Dilated: the host's own. */
#include "shim.h"

#include "random.h"

INTERPOSE ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    static uint64_t state;
    static bool seeded;
    if (!lockstep())
        return libc.getrandom(buffer, length, flags);
    if (!seeded) {
        seeded = true;
        state = page->seed;
    }
    random_fill(&state, buffer, length);
    return (ssize_t)length;
}
