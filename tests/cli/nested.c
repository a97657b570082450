/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose CPU time is all below main > outer > middle > inner, in functions without frame
 * pointers. Its argument is the number of rounds. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static unsigned inner(unsigned seed) {
    volatile unsigned sum = seed;
    for (unsigned i = 0; i < 1000000; i++)
        sum = sum * 31 + i;
    return sum + 1;
}

__attribute__((noinline)) static unsigned middle(unsigned seed) {
    return inner(seed) + 1;
}

__attribute__((noinline)) static unsigned outer(unsigned seed) {
    return middle(seed) + 1;
}

int main(int argc, char **argv) {
    unsigned sum = 0;
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 100); i++)
        sum = outer(sum) + 1;
    printf("%u\n", sum);
    return 0;
}
