/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/backoff.h"

#include <stdlib.h>
#include <sys/random.h>

/* arc4random_uniform would do this, but glibc has it only since 2.36. If the kernel has no random
 * bits yet, early at boot, the answer is 0, so a pause is as short as it may be. */
static uint32_t random_below(uint32_t bound) {
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
        bits = 0;
    return (uint32_t)((uint64_t)bits * bound >> 32);
}

uint32_t backoff_ms(uint32_t failures, uint32_t max_ms) {
    uint32_t pause = max_ms / 8 < BACKOFF_FIRST_MS ? max_ms / 8 : BACKOFF_FIRST_MS;
    for (uint32_t i = 1; i < failures && pause < max_ms; i++)
        pause *= 2;
    if (pause > max_ms)
        pause = max_ms;
    return pause / 2 + random_below(pause - pause / 2 + 1);
}

uint32_t backoff_max_ms(size_t hosts) {
    return hosts < 10000 ? 4000 + (uint32_t)hosts * 56 / 10 : BACKOFF_MAX_MS;
}

uint32_t backoff_spread_ms(size_t hosts) {
    return hosts < BACKOFF_SPREAD_MS ? (uint32_t)hosts : BACKOFF_SPREAD_MS;
}

uint32_t backoff_jitter_ms(uint32_t span_ms) {
    return random_below(span_ms);
}
