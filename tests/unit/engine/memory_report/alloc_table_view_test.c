/* SPDX-License-Identifier: Apache-2.0
 *
 * How sonded reads the sampler's table: valid entries are summed, invalid ones are skipped. */
#include "service/engine/memory_report/alloc_table_view.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct table {
    int fd;
    uint8_t *base;
    struct alloc_view *view;
    uint32_t stacks, entries;
};

static struct alloc_header *header_of(struct table *table) {
    return (struct alloc_header *)table->base;
}

static void table_init(struct table *table) {
    *table = (struct table){.entries = 1};
    table->fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(table->fd, ALLOC_BYTES) == 0);
    table->base = mmap(NULL, ALLOC_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, table->fd, 0);
    CHECK(table->base != MAP_FAILED);
    *header_of(table) = (struct alloc_header){
        .magic = ALLOC_MAGIC, .version = 1, .entries_used = 1, .stack_used = 8};
    CHECK(fcntl(table->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    CHECK_INT(alloc_view_open(table->fd, 7, &table->view), ==, SONDE_OK);
    CHECK_INT(alloc_view_number(table->view), ==, 7);
}

static void table_finish(struct table *table) {
    alloc_view_release(table->view);
    munmap(table->base, ALLOC_BYTES);
    close(table->fd);
}

/* Returns its place. */
static uint32_t add_stack(struct table *table, double objects, double bytes, uint16_t depth) {
    struct alloc_header *header = header_of(table);
    uint64_t at = header->stack_used;
    struct alloc_stack *stack = (struct alloc_stack *)(table->base + ALLOC_STACKS_AT + at);
    stack->objects = alloc_bits(objects);
    stack->bytes = alloc_bits(bytes);
    stack->samples = 1;
    stack->number = header->stack_count++;
    stack->depth = depth;
    for (uint16_t i = 0; i < depth && i < ALLOC_MAX_DEPTH; i++)
        stack->pcs[i] = 0x1000 + i;
    header->stack_used += sizeof *stack + ALLOC_MAX_DEPTH * 8;
    ((uint32_t *)(table->base + ALLOC_SLOTS_AT))[17 * table->stacks++] = (uint32_t)(at / 8);
    return (uint32_t)(at / 8);
}

static struct alloc_entry *add_entry(struct table *table, uint32_t stack, double objects,
                                     uint64_t size) {
    struct alloc_entry *entry =
        (struct alloc_entry *)(table->base + ALLOC_ENTRIES_AT) + table->entries++;
    *entry = (struct alloc_entry){.version = 2,
                                  .address = 0x7000 + 16 * table->entries,
                                  .size = size,
                                  .objects = alloc_bits(objects),
                                  .time_ns = 1000 * table->entries,
                                  .stack = stack};
    header_of(table)->entries_used = table->entries;
    return entry;
}

static struct alloc_sums read_all(struct table *table) {
    struct alloc_sums sums;
    struct alloc_choice choice = {.live = true, .born_before_ns = UINT64_MAX};
    CHECK_INT(alloc_view_read(table->view, &choice, &sums), ==, SONDE_OK);
    return sums;
}

TEST(live_samples_are_summed_by_their_stack) {
    struct table table;
    table_init(&table);
    uint32_t one = add_stack(&table, 10, 1000, 3), other = add_stack(&table, 5, 50, 2);
    add_entry(&table, one, 4, 100);
    add_entry(&table, one, 2.5, 10);
    add_entry(&table, other, 1, 7);
    struct alloc_sums sums = read_all(&table);
    CHECK_INT(sums.count, ==, 2);
    CHECK_NEAR(sums.items[0].objects, 10, 0);
    CHECK_NEAR(sums.items[0].live_objects, 6.5, 1e-9);
    CHECK_NEAR(sums.items[0].live_bytes, 425, 1e-9);
    CHECK_INT(sums.items[0].live_samples, ==, 2);
    CHECK_NEAR(sums.items[1].live_bytes, 7, 0);
    struct alloc_place where;
    uint64_t pcs[ALLOC_MAX_DEPTH];
    CHECK_INT(alloc_view_stack(table.view, sums.items[0].place, pcs, &where), ==, 3);
    CHECK_INT(pcs[2], ==, 0x1002);
    alloc_sums_finish(&sums);
    table_finish(&table);
}

TEST(samples_are_chosen_by_their_age) {
    struct table table;
    struct alloc_sums sums;
    table_init(&table);
    uint32_t stack = add_stack(&table, 10, 1000, 3);
    uint64_t between = add_entry(&table, stack, 1, 1)->time_ns + 500;
    add_entry(&table, stack, 1, 1);
    struct alloc_choice choice = {.live = true, .born_before_ns = between};
    CHECK_INT(alloc_view_read(table.view, &choice, &sums), ==, SONDE_OK);
    CHECK_INT(sums.items[0].live_samples, ==, 1);
    alloc_sums_finish(&sums);
    table_finish(&table);
}

TEST(totals_of_a_window_are_the_difference_of_two_readings) {
    struct table table;
    table_init(&table);
    uint32_t stack = add_stack(&table, 10, 1000, 3);
    struct alloc_sums before = read_all(&table);
    struct alloc_stack *grown = (struct alloc_stack *)(table.base + ALLOC_STACKS_AT + stack * 8ull);
    grown->objects = alloc_bits(13);
    grown->bytes = alloc_bits(1300);
    grown->samples = 4;
    add_stack(&table, 1, 2, 3);
    struct alloc_sums after = read_all(&table);
    alloc_sums_subtract(&after, &before);
    CHECK_NEAR(after.items[0].objects, 3, 0);
    CHECK_NEAR(after.items[0].bytes, 300, 0);
    CHECK_INT(after.items[0].samples, ==, 3);
    CHECK_NEAR(after.items[1].bytes, 2, 0); /* added meanwhile */
    alloc_sums_subtract(&before, &after);
    CHECK_NEAR(before.items[0].objects, 7, 0);
    alloc_sums_subtract(&before, &after);
    alloc_sums_subtract(&before, &after);
    alloc_sums_subtract(&before, &after);
    CHECK_NEAR(before.items[0].objects, 0, 0); /* sums are never negative */
    alloc_sums_finish(&before);
    alloc_sums_finish(&after);
    table_finish(&table);
}

TEST(entries_that_lie_are_left_out) {
    struct table table;
    table_init(&table);
    uint32_t stack = add_stack(&table, 1, 1, 3);
    add_entry(&table, stack, 1, 10);
    add_entry(&table, stack, NAN, 10);
    add_entry(&table, stack, INFINITY, 10);
    add_entry(&table, stack, -5, 10);
    add_entry(&table, stack, 1, UINT64_MAX);
    add_entry(&table, stack + 1, 1, 10);
    add_entry(&table, UINT32_MAX, 1, 10);
    add_entry(&table, 0, 1, 10);
    add_entry(&table, stack, 1, 10)->version = 3; /* being written */
    add_entry(&table, stack, 1, 10)->address = 0;
    struct alloc_sums sums = read_all(&table);
    CHECK_INT(sums.items[0].live_samples, ==, 1);
    CHECK_NEAR(sums.items[0].live_bytes, 10, 0);
    alloc_sums_finish(&sums);
    table_finish(&table);
}

TEST(stacks_that_lie_are_left_out) {
    struct table table;
    struct alloc_place where;
    uint64_t pcs[ALLOC_MAX_DEPTH];
    table_init(&table);
    add_stack(&table, NAN, 1e300, 3);
    uint32_t deep = add_stack(&table, 1, 1, ALLOC_MAX_DEPTH + 1), none = add_stack(&table, 1, 1, 0);
    CHECK_INT(alloc_view_stack(table.view, deep, pcs, &where), ==, 0);
    CHECK_INT(alloc_view_stack(table.view, none, pcs, &where), ==, 0);
    CHECK_INT(alloc_view_stack(table.view, ALLOC_STACK_BYTES / 8 - 1, pcs, &where), ==, 0);
    CHECK_INT(alloc_view_stack(table.view, UINT32_MAX, pcs, &where), ==, 0);
    uint32_t *slots = (uint32_t *)(table.base + ALLOC_SLOTS_AT);
    for (uint32_t i = 1000; i < 2000; i++)
        slots[i] = i * 4294967u;
    header_of(&table)->stack_count = UINT32_MAX;
    header_of(&table)->entries_used = UINT32_MAX;
    struct alloc_sums sums = read_all(&table);
    CHECK_INT(sums.count, ==, ALLOC_STACKS);
    CHECK_NEAR(sums.items[0].objects, 0, 0);
    CHECK_NEAR(sums.items[0].bytes, 0, 0);
    alloc_sums_finish(&sums);
    table_finish(&table);
}

TEST(memory_that_is_no_table_is_refused) {
    struct alloc_view *view;
    int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, ALLOC_BYTES) == 0);
    CHECK_INT(alloc_view_open(fd, 1, &view), ==, SONDE_PROTOCOL); /* not sealed */
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    CHECK_INT(alloc_view_open(fd, 1, &view), ==, SONDE_PROTOCOL); /* no magic */
    close(fd);
    fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    CHECK_INT(alloc_view_open(fd, 1, &view), ==, SONDE_PROTOCOL); /* too short */
    close(fd);
    CHECK_INT(alloc_view_open(-1, 1, &view), ==, SONDE_PROTOCOL);
}

/* Its owner could truncate it, which would be SIGBUS for sonded. */
TEST(an_ordinary_file_with_a_table_is_refused) {
    struct alloc_header header = {.magic = ALLOC_MAGIC, .version = 1};
    struct alloc_view *view;
    char path[32];
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK(ftruncate(fd, ALLOC_BYTES) == 0 && unlink(path) == 0);
    CHECK_INT(pwrite(fd, &header, sizeof header, 0), ==, sizeof header);
    CHECK_INT(alloc_view_open(fd, 1, &view), ==, SONDE_PROTOCOL);
    close(fd);
}
