/* SPDX-License-Identifier: Apache-2.0
 *
 * The library that the hostile program loads, runs and unloads. */
#include <stdint.h>

uint64_t library_work(uint64_t seed);

static __attribute__((noinline)) uint64_t down(uint64_t seed, int depth) {
    return depth ? down(seed * 6364136223846793005u + 1, depth - 1) + 1 : seed;
}

uint64_t library_work(uint64_t seed) {
    for (int i = 0; i < 20; i++)
        seed = down(seed, 20);
    return seed;
}
