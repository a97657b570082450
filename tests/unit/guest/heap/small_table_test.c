/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's table where RLIMIT_AS leaves little. */
#include "service/guest/heap/sample_table.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB (1ull << 20)

static uint64_t address_space(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

/* Opens the table with that much room. Returns what sample_table_open does. */
static int open_within(uint64_t room, uint64_t *taken) {
    struct rlimit before, limit;
    CHECK_INT(getrlimit(RLIMIT_AS, &before), ==, 0);
    uint64_t used = address_space();
    limit = before;
    limit.rlim_cur = used + room;
    CHECK_INT(setrlimit(RLIMIT_AS, &limit), ==, 0);
    int error = sample_table_open();
    CHECK_INT(setrlimit(RLIMIT_AS, &before), ==, 0);
    *taken = address_space() - used;
    return error;
}

static uint64_t dropped(enum alloc_drop cause) {
    struct alloc_header *header =
        mmap(NULL, ALLOC_PAGE, PROT_READ, MAP_SHARED, sample_table_fd(), 0);
    CHECK(header != MAP_FAILED);
    uint64_t count = atomic_load(&header->drops[cause]);
    munmap(header, ALLOC_PAGE);
    return count;
}

TEST(the_table_takes_at_most_a_sixteenth_of_the_room) {
    uint64_t taken;
    for (uint64_t room = 200 * MIB; room <= 3200 * MIB; room *= 2) {
        CHECK_INT(open_within(room, &taken), ==, 0);
        CHECK_INT(taken, <=, room / 16);
        CHECK_INT(taken, >, room / 64);
        sample_table_close();
    }
}

TEST(without_room_there_is_no_table) {
    uint64_t taken;
    CHECK_INT(open_within(64 * MIB, &taken), ==, ENOMEM);
    CHECK(!sample_table_is_open());
    CHECK_INT(taken, <, MIB);
}

/* As a full table would: no wrong pairs. */
TEST(a_small_table_that_is_full_drops_and_counts) {
    struct sample sample = {.stack = 1}, gone;
    uint64_t taken, put = 0;
    CHECK_INT(open_within(200 * MIB, &taken), ==, 0);
    while (dropped(ALLOC_DROP_LIVE) == 0 && put < ALLOC_ENTRIES) {
        sample.size = ++put;
        sample_table_put((void *)(put << 4), &sample);
    }
    CHECK_INT(put, <, ALLOC_ENTRIES / 8);
    CHECK(!sample_table_take((void *)(put << 4), &gone));
    for (uint64_t i = 1; i < put; i++) {
        CHECK(sample_table_take((void *)(i << 4), &gone));
        CHECK_INT(gone.size, ==, i);
    }
    sample_table_close();
}

TEST(a_small_table_has_room_for_fewer_stacks_and_counts_the_others) {
    struct alloc_place place = {0};
    uint64_t taken, pcs[ALLOC_MAX_DEPTH] = {0};
    CHECK_INT(open_within(200 * MIB, &taken), ==, 0);
    uint32_t stack = 1;
    for (pcs[0] = 1; stack && pcs[0] < ALLOC_STACKS; pcs[0]++)
        if ((stack = sample_table_stack(pcs, ALLOC_MAX_DEPTH, &place)))
            sample_table_count(stack, 1, 1);
    CHECK_INT(stack, ==, 0);
    CHECK_INT(dropped(ALLOC_DROP_STACKS), ==, 1);
    CHECK_INT(pcs[0] * sizeof pcs, <, ALLOC_STACK_BYTES / 8);
    pcs[0] = 1;
    CHECK_INT(sample_table_stack(pcs, ALLOC_MAX_DEPTH, &place), !=, 0); /* known already */
    sample_table_close();
}
