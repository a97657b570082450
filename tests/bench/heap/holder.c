/* SPDX-License-Identifier: Apache-2.0
 *
 * Under the guest: holds 100,000 blocks on as many stacks, then allocates in one thread and tells
 * how long the slowest allocations took, one letter a line as tests/unit/heap/holder.c:
 *
 *     h  hold    b  begin to allocate    e  end, and print what it took */
#include "tests/bench/walk/stacks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STACKS 100000u
#define SIZE   40000u /* always a sample at 4 KiB */
#define MOST   (1u << 16)

static void *volatile kept[STACKS];
static _Atomic int runs;
static pthread_t thread;
static uint32_t slow[MOST]; /* allocations by their ns / 64 */
static uint64_t worst_ns, count;

static void keep(void *context) {
    kept[*(unsigned *)context] = malloc(SIZE);
}

static void hold(void) {
    for (unsigned i = 0; i < STACKS; i++)
        stacks_enter(25, i * 2654435761u, keep, &i);
}

static void *allocate(void *unused) {
    while (runs) {
        uint64_t start = stacks_now_ns();
        free(malloc(64 + count % 3000));
        uint64_t ns = stacks_now_ns() - start;
        worst_ns = ns > worst_ns ? ns : worst_ns;
        slow[ns / 64 < MOST ? ns / 64 : MOST - 1]++;
        count++;
    }
    return NULL;
}

static void tell(void) {
    uint64_t seen = 0;
    unsigned at = MOST;
    while (at > 0 && seen < count / 1000)
        seen += slow[--at];
    fprintf(stderr,
            "  a thread that allocates meanwhile: %llu pairs, p99.9 %.1f us, worst %.1f us (with "
            "what else the machine did; goal: a stall <= 1 ms)\n",
            (unsigned long long)count, (at + 1) * 64 / 1e3, (double)worst_ns / 1e3);
}

int main(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'h')
            hold();
        if (line[0] == 'b') {
            runs = 1;
            pthread_create(&thread, NULL, allocate, NULL);
        }
        if (line[0] == 'e') {
            runs = 0;
            pthread_join(thread, NULL);
            tell();
        }
        putchar(line[0]);
        fflush(stdout);
    }
    return 0;
}
