/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that spends its time in a function that is inlined into another, on known lines. */
#include <stdio.h>

static volatile unsigned sink;

static inline __attribute__((always_inline)) unsigned stir(unsigned value) {
    return value * 2654435761u ^ value >> 15; /* hot */
}

__attribute__((noipa)) static unsigned knead(unsigned rounds) {
    unsigned value = 1;
    for (unsigned i = 0; i < rounds; i++)
        value = stir(value + i);
    return value;
}

int main(void) {
    puts("ready");
    fflush(stdout);
    for (;;)
        sink = knead(1000000); /* the call */
}
