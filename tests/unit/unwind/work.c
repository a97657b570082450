/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unwind/work.h"

#include <alloca.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

APART static unsigned long leaf(unsigned long n) {
    unsigned long sum = n;
    for (int i = 0; i < 20; i++)
        sum = sum * 31 + (sum >> 7);
    return sum;
}

APART static unsigned long small_frame(unsigned long n) {
    volatile unsigned char bytes[40];
    bytes[n % 40] = (unsigned char)n;
    return leaf(n) + bytes[n % 40];
}

APART static unsigned long big_frame(unsigned long n) {
    volatile unsigned char bytes[9000];
    bytes[n % 9000] = 3;
    return small_frame(n) + bytes[n % 9000];
}

APART static unsigned long grown_frame(unsigned long n) {
    unsigned char *bytes = alloca(n % 500 + 16);
    memset(bytes, (int)n, n % 500 + 16);
    return small_frame(bytes[n % 16]) + leaf(bytes[3]);
}

/* With an aligned local and alloca, gcc keeps the old stack pointer in another register (DRAP). */
APART static unsigned long realigned_frame(unsigned long n) {
    volatile unsigned char aligned[64] __attribute__((aligned(64)));
    unsigned char *bytes = alloca(n % 300 + 16);
    memset(bytes, (int)n, n % 300 + 16);
    aligned[n % 64] = bytes[n % 16];
    return grown_frame(n) + aligned[n % 64];
}

APART static unsigned long many_registers(unsigned long a, unsigned long b, unsigned long c,
                                          unsigned long d, unsigned long e, unsigned long f,
                                          unsigned long g, unsigned long h) {
    unsigned long sum = leaf(a) ^ leaf(b) * leaf(c);
    for (unsigned long i = 0; i < 3; i++)
        sum += small_frame(a + i) * d + e * leaf(f + sum) + (g ^ small_frame(h));
    return sum + a * b + c * d + e * f + g * h;
}

APART static unsigned long tail_call(unsigned long n) {
    if (n % 3 == 0)
        return small_frame(n + 1);
    return grown_frame(n);
}

APART static int compare(const void *left, const void *right) {
    const unsigned *a = left, *b = right;
    return (int)(leaf(*a) & 1) + (*a > *b) - (*a < *b);
}

APART static unsigned long through_libc(unsigned long n) {
    unsigned numbers[12];
    for (unsigned i = 0; i < 12; i++)
        numbers[i] = (unsigned)(n * 2654435761u >> (i % 7)) + i;
    qsort(numbers, 12, sizeof *numbers, compare);
    return numbers[0] + numbers[11];
}

APART static unsigned long early_exit(unsigned long n) {
    unsigned char *bytes = NULL;
    if (n % 5 == 0)
        return leaf(n);
    bytes = malloc(n % 100 + 1);
    bytes[0] = (unsigned char)n;
    unsigned long sum = small_frame(bytes[0]);
    free(bytes);
    return sum;
}

unsigned long work_short(unsigned n) {
    unsigned long sum = big_frame(n) + realigned_frame(n) + through_libc(n) + tail_call(n);
    sum += many_registers(n, sum, 3, n + 1, 5, sum, 7, n + 2) + early_exit(n);
    return sum + (unsigned long)(sqrt((double)n) + strtod("3.25", NULL));
}

unsigned long work_round(unsigned n) {
    char text[200], copy[200];
    struct timespec now;
    snprintf(text, sizeof text, "%u %s %.3f %lx", n, "some text", n / 3.0, leaf(n));
    memcpy(copy, text, sizeof copy);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return work_short(n) + strlen(copy) + (unsigned long)strtod(copy, NULL) +
           (unsigned long)now.tv_nsec % 2;
}

static void (*at_bottom)(void);

APART static unsigned long deeper(unsigned depth, unsigned long n);

APART static unsigned long deeper_by_alloca(unsigned depth, unsigned long n) {
    volatile unsigned char *bytes = alloca(n % 64 + 16);
    bytes[n % 16] = 1;
    return deeper(depth, n * 3 + 1) + bytes[n % 16];
}

APART static unsigned long deeper_realigned(unsigned depth, unsigned long n) {
    volatile unsigned char aligned[64] __attribute__((aligned(64)));
    volatile unsigned char *bytes = alloca(n % 64 + 16);
    aligned[n % 64] = bytes[n % 16] = 1;
    return deeper(depth, n * 5 + 1) + aligned[n % 64];
}

static unsigned deep_left;

APART static int deeper_in_qsort(const void *left, const void *right) {
    unsigned left_over = deep_left;
    deep_left = 0;
    return left_over ? (int)(deeper(left_over, 7) & 1) : left < right;
}

APART static unsigned long deeper(unsigned depth, unsigned long n) {
    volatile unsigned char bytes[24];
    bytes[n % 24] = 1;
    if (depth == 0) {
        at_bottom();
        return bytes[n % 24];
    }
    if (depth % 17 == 5) {
        unsigned two[2] = {2, 1};
        deep_left = depth - 1;
        qsort(two, 2, sizeof *two, deeper_in_qsort);
        return two[0] + bytes[n % 24];
    }
    if (depth % 3 == 0)
        return deeper_by_alloca(depth - 1, n) + bytes[n % 24];
    if (depth % 3 == 1)
        return deeper_realigned(depth - 1, n) + bytes[n % 24];
    return deeper(depth - 1, n) + bytes[n % 24];
}

unsigned long work_deep(unsigned depth, void (*bottom)(void)) {
    at_bottom = bottom;
    return deeper(depth, depth);
}
