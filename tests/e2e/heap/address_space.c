/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates and frees, and when FILE appears allocates MIB in blocks of 64 KiB and four threads.
 * Reports whether everything could be had. usage: address_space FILE MIB */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (64u << 10)

static __attribute__((noinline)) void *take(void) {
    char *block = malloc(BLOCK);
    if (block)
        memset(block, 1, BLOCK);
    return block;
}

static void *wait_long(void *context) {
    pause();
    return context;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int failed = 0;
    printf("ready\n");
    fflush(stdout);
    while (argc == 3 && access(argv[1], F_OK) != 0)
        free(take());
    for (long i = 0; i < atol(argv[2]) * 16; i++)
        failed += take() == NULL;
    for (int i = 0; i < 4; i++)
        failed += pthread_create(&thread, NULL, wait_long, NULL) != 0;
    printf("failed: %d.\n", failed);
    fflush(stdout);
    pause();
    return 0;
}
