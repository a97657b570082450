/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/backoff.h"

#include <stdlib.h>

uint32_t backoff_ms(uint32_t failures) {
    uint32_t pause = BACKOFF_FIRST_MS;
    for (uint32_t i = 1; i < failures && pause < BACKOFF_MAX_MS; i++)
        pause *= 2;
    if (pause > BACKOFF_MAX_MS)
        pause = BACKOFF_MAX_MS;
    return pause / 2 + arc4random_uniform(pause - pause / 2 + 1);
}

uint32_t backoff_jitter_ms(uint32_t span_ms) {
    return arc4random_uniform(span_ms);
}
