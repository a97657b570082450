/* SPDX-License-Identifier: Apache-2.0
 *
 * A service with 100,000 functions, which is generated as it is asked for. */
#include "service/watch/slots.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 100000u

struct big {
    struct store base;
    uint64_t first;  /* id of the first stack; a stack's frame has its id */
    size_t large;    /* so many of the functions have 1,000 times the cost of others */
    sonde_err fails; /* of frames */
};

static sonde_err merge(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_merge *merged,
                       struct sonde_diag *diag) {
    const struct big *big = (struct big *)store;
    *merged = (struct store_merge){.row_count = FUNCTIONS, .samples = FUNCTIONS};
    merged->rows = sonde_arena_alloc(arena, FUNCTIONS * sizeof *merged->rows);
    for (size_t i = 0; i < FUNCTIONS; i++)
        merged->rows[i] =
            (struct store_row){.stack = big->first + i, .value = i < big->large ? 1000000 : 1000};
    return SONDE_OK;
}

static sonde_err stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_stack **rows, size_t *found, struct sonde_diag *diag) {
    *rows = sonde_arena_alloc(arena, count * sizeof **rows);
    *found = count;
    for (size_t i = 0; i < count; i++)
        (*rows)[i] = (struct store_stack){service, ids[i], &ids[i], 1};
    return SONDE_OK;
}

/* Every tenth frame is unknown. */
static sonde_err frames(struct store *store, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_frame **rows, size_t *found, struct sonde_diag *diag) {
    *rows = sonde_arena_alloc(arena, count * sizeof **rows);
    *found = 0;
    for (size_t i = 0; i < count; i++) {
        struct store_line *line = sonde_arena_alloc(arena, sizeof *line);
        char *name = sonde_arena_alloc(arena, 24);
        snprintf(name, 24, "f%llu", (unsigned long long)ids[i]);
        *line = (struct store_line){name, "", 0};
        if (ids[i] % 10)
            (*rows)[(*found)++] = (struct store_frame){
                .id = ids[i], .module = "", .version = 1, .lines = line, .line_count = 1};
    }
    return ((struct big *)store)->fails;
}

static const struct store_ops ops = {.merge = merge, .stacks = stacks, .frames = frames};
static struct big big;
static struct slots *slots;

static void begin(void) {
    big = (struct big){.base.ops = &ops, .first = 1};
    slots = slots_create("shop");
    CHECK(slots != NULL);
}

static sonde_err read_slot(int64_t number) {
    return slots_read(slots, &big.base, number, NULL, NULL);
}

/* One is the code without names. */
TEST(of_100000_functions_only_those_with_a_share_are_kept) {
    begin();
    CHECK_INT(read_slot(1), ==, SONDE_OK);
    CHECK_INT(slots->series_count, ==, 1);
    big.large = 20;
    CHECK_INT(read_slot(2), ==, SONDE_OK);
    CHECK_INT(slots->series_count, ==, 1 + 18);
    CHECK_INT(slots->stack_count, ==, FUNCTIONS);
    slots_destroy(slots);
}

TEST(functions_that_became_small_are_forgotten) {
    begin();
    big.large = 20;
    CHECK_INT(read_slot(1), ==, SONDE_OK);
    big.large = 0;
    CHECK_INT(read_slot(LEVEL_SLOTS), ==, SONDE_OK);
    CHECK_INT(slots->series_count, ==, 1 + 18);
    CHECK_INT(read_slot(LEVEL_SLOTS + 1), ==, SONDE_OK);
    CHECK_INT(slots->series_count, ==, 1);
    slots_destroy(slots);
}

TEST(stacks_that_never_end_do_not_fill_the_memory) {
    begin();
    for (int64_t i = 1; i < 8; i++) {
        big.first = (uint64_t)i * FUNCTIONS;
        CHECK_INT(read_slot(i), ==, SONDE_OK);
        CHECK_INT(slots->stack_count, <=, SLOTS_MAX_STACKS);
        CHECK_INT(slots->leaf_count, <=, SLOTS_MAX_STACKS);
    }
    slots_destroy(slots);
}

TEST(a_slot_that_cannot_be_read_changes_nothing) {
    begin();
    CHECK_INT(read_slot(1), ==, SONDE_OK);
    double whole = slots->wholes[LEVEL_SLOTS - 1];
    big.fails = SONDE_UNAVAILABLE;
    big.first += FUNCTIONS;
    CHECK_INT(read_slot(2), ==, SONDE_UNAVAILABLE);
    CHECK_INT(slots->last, ==, 1);
    CHECK_NEAR(slots->wholes[LEVEL_SLOTS - 1], whole, 0);
    slots_destroy(slots);
}

TEST(slots_in_between_are_empty) {
    begin();
    CHECK_INT(read_slot(1), ==, SONDE_OK);
    CHECK_INT(read_slot(4), ==, SONDE_OK);
    CHECK(slots->wholes[LEVEL_SLOTS - 4] > 0 && slots->wholes[LEVEL_SLOTS - 1] > 0);
    CHECK_NEAR(slots->wholes[LEVEL_SLOTS - 2], 0, 0);
    CHECK_NEAR(slots->wholes[LEVEL_SLOTS - 3], 0, 0);
    slots_destroy(slots);
}
