/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of live samples when its buckets are full. Blocks are addresses only; their memory is
 * never touched. */
#include "service/guest/heap/sample_table.h"

#include "tests/unit/check.h"

#include <sys/mman.h>

#define BUCKET  8u
#define BUCKETS 4u
#define FIT     (BUCKETS * BUCKET)

/* ---- Blocks that share all of their buckets ---- */

/* sample_table.c hashes key = address / 8 by two factors. A bucket is given by bits 40 and up of
 * key * factor: 10 bits of them in the front, 18 in the back. */
#define FACTOR_ONE 0x9e3779b97f4a7c15ull
#define FACTOR_TWO 0xc2b2ae3d27d4eb4full
#define RANGE      (1ull << 58)
#define WINDOW     (1ull << 40)

static uint64_t turn(uint64_t key, uint64_t factor) {
    return key * factor % RANGE;
}

/* Steps from a key whose first hash is in [0, WINDOW) to the next such key. By the three-distance
 * theorem there are two such steps and their sum: `up` moves the hash up a little, `down` moves it
 * down a little. */
struct steps {
    uint64_t up, down;
};

static struct steps find_steps(void) {
    struct steps steps = {0, 0};
    for (uint64_t key = 1; !steps.up || !steps.down; key++) {
        uint64_t hash = turn(key, FACTOR_ONE);
        if (!steps.up && hash < WINDOW)
            steps.up = key;
        if (!steps.down && hash > RANGE - WINDOW)
            steps.down = key;
    }
    return steps;
}

static uint64_t next_key(uint64_t key, struct steps steps) {
    uint64_t fewer = steps.up < steps.down ? steps.up : steps.down;
    uint64_t more = steps.up + steps.down - fewer;
    uint64_t candidates[] = {key + fewer, key + more, key + fewer + more};
    for (int i = 0; i < 2; i++)
        if (turn(candidates[i], FACTOR_ONE) < WINDOW)
            return candidates[i];
    return candidates[2];
}

/* FIT + 1 blocks that have the same buckets: number 0 by the first hash and number 1 by the second,
 * in the front as in the back. */
static void find_blocks(void *blocks[FIT + 1]) {
    struct steps steps = find_steps();
    uint32_t count = 0;
    for (uint64_t key = steps.up; count <= FIT; key = next_key(key, steps)) {
        CHECK(key < 1ull << 44);
        if (turn(key, FACTOR_TWO) / WINDOW == 1)
            blocks[count++] = (void *)(key << 3);
    }
}

static const struct alloc_header *map_header(void) {
    void *header = mmap(NULL, ALLOC_PAGE, PROT_READ, MAP_SHARED, sample_table_fd(), 0);
    CHECK(header != MAP_FAILED);
    return header;
}

static uint64_t drops(const struct alloc_header *header) {
    return atomic_load(&header->drops[ALLOC_DROP_LIVE]);
}

/* ---- Tests ---- */

/* issue 11 */
TEST(a_block_whose_buckets_are_full_is_dropped_and_counted) {
    void *blocks[FIT + 1];
    struct sample sample = {.stack = 1}, gone;
    find_blocks(blocks);
    CHECK_INT(sample_table_open(), ==, 0);
    const struct alloc_header *header = map_header();
    for (uint32_t i = 0; i < FIT; i++) {
        sample.size = i;
        sample_table_put(blocks[i], &sample);
    }
    CHECK_INT(drops(header), ==, 0);
    sample_table_put(blocks[FIT], &sample);
    CHECK_INT(drops(header), ==, 1);
    CHECK(!sample_table_take(blocks[FIT], &gone));
    for (uint32_t i = 0; i < FIT; i++) {
        CHECK(sample_table_take(blocks[i], &gone));
        CHECK_INT(gone.size, ==, i);
    }
    for (uint32_t i = 0; i <= FIT; i++)
        CHECK(!sample_table_may_hold(blocks[i])); /* the filter counts no dropped block */
    munmap((void *)header, ALLOC_PAGE);
    sample_table_close();
}

TEST(a_dropped_block_leaves_its_entry_to_the_next_one) {
    void *blocks[FIT + 1];
    struct sample sample = {.stack = 1}, gone;
    find_blocks(blocks);
    CHECK_INT(sample_table_open(), ==, 0);
    const struct alloc_header *header = map_header();
    for (uint32_t i = 0; i <= FIT; i++)
        sample_table_put(blocks[i], &sample);
    uint32_t used = atomic_load(&header->entries_used);
    sample_table_put(&sample, &sample);
    CHECK_INT(atomic_load(&header->entries_used), ==, used);
    CHECK(sample_table_take(&sample, &gone));
    munmap((void *)header, ALLOC_PAGE);
    sample_table_close();
}

TEST(a_block_at_an_odd_address_is_dropped_and_counted) {
    struct sample sample = {.stack = 1}, gone;
    CHECK_INT(sample_table_open(), ==, 0);
    const struct alloc_header *header = map_header();
    sample_table_put((char *)&sample + 4, &sample);
    CHECK_INT(drops(header), ==, 1);
    CHECK(!sample_table_take((char *)&sample + 4, &gone));
    CHECK(!sample_table_take(&sample, &gone));
    munmap((void *)header, ALLOC_PAGE);
    sample_table_close();
}

TEST(forgetting_live_blocks_empties_front_and_back) {
    void *blocks[FIT + 1];
    struct sample sample = {.stack = 1}, gone;
    find_blocks(blocks);
    CHECK_INT(sample_table_open(), ==, 0);
    for (uint32_t i = 0; i < FIT; i++)
        sample_table_put(blocks[i], &sample);
    sample_table_forget_live();
    for (uint32_t i = 0; i < FIT; i++) {
        CHECK(!sample_table_may_hold(blocks[i]));
        CHECK(!sample_table_take(blocks[i], &gone));
    }
    sample_table_close();
}
