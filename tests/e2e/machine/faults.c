/* SPDX-License-Identifier: Apache-2.0
 *
 * faults STEPS STEP_US: in each step load_index() causes 48 page faults and load_cache() 16; then
 * it sleeps for STEP_US. STEPS 0 = for ever. At the end it prints the number of its page faults in
 * the steps, by its own getrusage. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define INDEX_PAGES 48
#define CACHE_PAGES 16
#define PAGE        4096

static volatile uint8_t *memory;

static uint64_t own_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* Each page is given back, so that it faults again. */
__attribute__((noinline)) static void touch(size_t pages) {
    for (size_t i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
    madvise((void *)memory, pages * PAGE, MADV_DONTNEED);
}

__attribute__((noinline)) void load_index(void) {
    touch(INDEX_PAGES);
    __asm__ volatile("");
}

__attribute__((noinline)) void load_cache(void) {
    touch(CACHE_PAGES);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) : 0;
    unsigned step_us = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    memory =
        mmap(NULL, INDEX_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise((void *)memory, INDEX_PAGES * PAGE, MADV_NOHUGEPAGE);
    uint64_t before = own_faults();
    for (long step = 0; step < steps || steps == 0; step++) {
        load_index();
        load_cache();
        if (step_us)
            usleep(step_us);
    }
    printf("%llu\n", (unsigned long long)(own_faults() - before));
    return 0;
}
