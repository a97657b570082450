/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates a known live set and makes jemalloc dump it to the file of its argument: 64 MB in small
 * blocks, 50 MiB in large ones, and one site with both sizes. */
#include <jemalloc/jemalloc.h>
#include <stdlib.h>

__attribute__((noinline)) static void *site_small(void) {
    void *block = malloc(64);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) static void *site_large(void) {
    void *block = malloc(1 << 20);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noinline)) static void *site_mixed(int index) {
    void *block = malloc(index % 8 ? 32 : 2048);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv) {
    for (int i = 0; i < 1000000; i++)
        *(void *volatile *)&(void *){site_small()};
    for (int i = 0; i < 50; i++)
        *(void *volatile *)&(void *){site_large()};
    for (int i = 0; i < 400000; i++)
        *(void *volatile *)&(void *){site_mixed(i)};
    const char *path = argc > 1 ? argv[1] : "";
    return mallctl("prof.dump", NULL, NULL, &path, sizeof path);
}
