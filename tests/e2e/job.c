/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed amount of work for gate_test.py. Under the name new-server, `parse` does half as much
 * again, which is a sixth of the whole. */
#include <stdlib.h>
#include <string.h>

#define ROUNDS 800

/* In a register: on some CPUs, what a store that is read again costs depends on its address, which
 * is random in each run. A macro, because an inlined function would be a frame. */
#define SPEND(count)                               \
    unsigned long value = (count);                 \
    for (unsigned long i = 0; i < (count); i++) {  \
        value = value * 6364136223846793005ul + i; \
        __asm__ volatile("" : "+r"(value));        \
    }

__attribute__((noinline)) static void parse(unsigned long count) {
    SPEND(count)
}

__attribute__((noinline)) static void match(unsigned long count) {
    SPEND(count)
}

__attribute__((noinline)) static void serve(unsigned long parts) {
    parse(1000 * parts);
    match(200000);
    __asm__ volatile(""); /* no tail call */
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    int is_new = strcmp(slash ? slash + 1 : argv[0], "new-server") == 0;
    if (argc > 2)
        return atoi(argv[2]);
    for (int i = 0; i < ROUNDS; i++)
        serve(is_new ? 150 : 100);
    return 0;
}
