/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that holds memory. HOLD is the function's name; libraries that differ only in it are
 * loaded at the same address, one after the other. */
#include <stdlib.h>

#define BLOCKS 20

__attribute__((noinline, visibility("default"))) int HOLD(void **held) {
    for (int i = 0; i < BLOCKS; i++)
        held[i] = malloc(1 << 20);
    return BLOCKS;
}
