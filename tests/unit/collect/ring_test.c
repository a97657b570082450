/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/ring.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#define INSTANCE "0123456789abcdef0123456789abcde"

static struct ring ring;
static struct tables tables;
static bool is_open;

static void begin(size_t limit_bytes) {
    if (is_open) {
        ring_finish(&ring);
        tables_finish(&tables);
    }
    is_open = true;
    tables_init(&tables);
    ring_init(&ring, limit_bytes);
}

/* A stack of one frame; its id is the frame's times ten. */
static void define(uint64_t id, uint32_t version, const char *function) {
    const struct store_line line = {function, "a.c", 1};
    const struct store_frame frame = {.id = id,
                                      .build_id = "ab12",
                                      .module = "/bin/web",
                                      .address = id,
                                      .version = version,
                                      .lines = &line,
                                      .line_count = 1};
    const struct store_stack stack = {"web", id * 10, &frame.id, 1};
    CHECK(tables_frame(&tables, &frame) != 0);
    CHECK(tables_stack(&tables, &stack) != 0);
}

static struct store_window window_of(char process, const char *event, uint64_t seq,
                                     const uint64_t *stack, const int64_t *value, uint32_t rows) {
    static const char *const threads[] = {"", "worker"};
    static const struct store_label label = {"version", "7"};
    static uint8_t thread[64];
    static char instances[2][33];
    char *instance = instances[seq % 2];
    snprintf(instance, 33, INSTANCE "%c", process);
    return (struct store_window){.source = 1,
                                 .seq = seq,
                                 .epoch = 1,
                                 .event = event,
                                 .service = "web",
                                 .host = "h",
                                 .instance = instance,
                                 .pid = 7,
                                 .begin_unix_s = 1700000000 + 10 * (int64_t)seq,
                                 .length_s = 10,
                                 .weight = 1,
                                 .cpu_from_ns = 100 * seq,
                                 .cpu_until_ns = 100 * seq + 100,
                                 .clock = "perf-task",
                                 .samples = 5,
                                 .labels = &label,
                                 .label_count = 1,
                                 .threads = threads,
                                 .thread_count = 2,
                                 .stack = stack,
                                 .thread = thread,
                                 .value = value,
                                 .row_count = rows};
}

static void add(char process, const char *event, uint64_t seq, uint64_t stack, int64_t value) {
    const struct store_window window = window_of(process, event, seq, &stack, &value, 1);
    CHECK(ring_add_window(&ring, &tables, &window));
}

static int64_t sum(void) {
    int64_t total = 0;
    for (const struct ring_item *item = ring.first; item; item = item->next)
        for (uint32_t i = 0; i < item->row_count && item->kind != RING_TOTALS; i++)
            total += item->rows[i].value;
    return total;
}

static size_t count(void) {
    size_t items = 0, bytes = 0;
    uint64_t seq = 0;
    for (const struct ring_item *item = ring.first; item; item = item->next) {
        items++;
        CHECK_INT(item->seq, >, seq);
        seq = item->seq;
        bytes += sizeof *item + item->row_count * sizeof *item->rows +
                 item->thread_count * sizeof *item->threads;
        CHECK(item->next || ring.last == (struct ring_item **)&item->next);
    }
    CHECK(ring.first || ring.last == &ring.first);
    CHECK_INT(ring.bytes, ==, bytes);
    return items;
}

TEST(an_acknowledgement_forgets_windows_up_to_its_number) {
    begin(1 << 20);
    define(1, 1, "f");
    for (uint64_t seq = 1; seq <= 5; seq++)
        add('a', "on-cpu", seq, 10, 100);
    ring_ack(&ring, 3);
    CHECK_INT(count(), ==, 2);
    CHECK_INT(ring.first->seq, ==, 4);
    ring_ack(&ring, 99);
    CHECK_INT(count(), ==, 0);
    add('a', "on-cpu", 6, 10, 100);
    CHECK_INT(count(), ==, 1);
}

TEST(a_full_ring_merges_windows_of_a_process_and_keeps_every_sum) {
    begin(1 << 20);
    define(1, 1, "f");
    define(2, 1, "g");
    int64_t expected = 0;
    for (uint64_t seq = 1; seq <= 40; seq++) {
        add(seq % 2 ? 'a' : 'b', seq % 3 ? "on-cpu" : "off-cpu", seq, seq % 5 ? 10 : 20,
            (int64_t)seq);
        expected += (int64_t)seq;
    }
    CHECK_INT(count(), ==, 40);
    ring.limit_bytes = ring.bytes / 2;
    ring_trim(&ring, &tables);
    CHECK_INT(ring.bytes, <=, ring.limit_bytes);
    size_t left = count();
    CHECK_INT(left, <, 40);
    CHECK_INT(sum(), ==, expected);
    CHECK_INT(ring.merged, ==, 40 - left);
    CHECK_INT(ring.lost_memory, ==, 0);
    uint64_t windows = 0, samples = 0;
    for (const struct ring_item *item = ring.first; item; item = item->next) {
        windows += 1 + item->merged;
        samples += item->samples;
        CHECK_INT(item->cpu_until_ns, ==, item->cpu_from_ns + 10 * item->length_s);
        CHECK_INT(item->length_s, >=, 10 + 10 * item->merged);
    }
    CHECK_INT(windows, ==, 40);
    CHECK_INT(samples, ==, 200);
}

TEST(windows_of_different_processes_events_and_weights_stay_apart) {
    begin(1);
    define(1, 1, "f");
    add('a', "on-cpu", 1, 10, 1);
    add('b', "on-cpu", 2, 10, 2);
    add('a', "off-cpu", 3, 10, 4);
    add('a', "on-cpu", 4, 10, 8);
    ring.first->weight = 2;
    ring.limit_bytes = ring.bytes - 1;
    ring_trim(&ring, &tables);
    CHECK_INT(ring.merged, ==, 0);
    CHECK_INT(ring.lost_memory, ==, 1);
}

TEST(a_window_that_was_sent_is_never_merged) {
    begin(1 << 20);
    define(1, 1, "f");
    for (uint64_t seq = 1; seq <= 4; seq++)
        add('a', "on-cpu", seq, 10, (int64_t)seq);
    ring.first->is_sent = ring.first->next->is_sent = true;
    ring.limit_bytes = ring.bytes - 1;
    ring_trim(&ring, &tables);
    CHECK_INT(count(), ==, 3);
    CHECK_INT(ring.first->seq, ==, 1);
    CHECK_INT(ring.first->rows[0].value, ==, 1);
    CHECK_INT(ring.first->next->rows[0].value, ==, 2);
    CHECK_INT(ring.first->next->next->rows[0].value, ==, 7);
    CHECK_INT(ring.first->next->next->seq, ==, 4);
    CHECK_INT(ring.first->next->next->begin_unix_s, ==, 1700000030);
    CHECK_INT(ring.first->next->next->length_s, ==, 20);
}

TEST(of_a_state_the_later_window_counts) {
    begin(1 << 20);
    define(1, 1, "f");
    add('a', "mem-inuse", 1, 10, 100);
    add('a', "mem-inuse", 2, 10, 30);
    ring.limit_bytes = ring.bytes - 1;
    ring_trim(&ring, &tables);
    CHECK_INT(count(), ==, 1);
    CHECK_INT(sum(), ==, 30);
}

TEST(merging_ends_at_an_hour) {
    begin(1 << 20);
    define(1, 1, "f");
    for (uint64_t seq = 1; seq <= 800; seq++)
        add('a', "on-cpu", seq, 10, 1);
    ring.limit_bytes = 4 * sizeof(struct ring_item);
    ring_trim(&ring, &tables);
    for (const struct ring_item *item = ring.first; item; item = item->next)
        CHECK_INT(item->length_s, <=, STORE_MAX_LENGTH);
    CHECK_INT(sum(), ==, 800);
}

TEST(what_does_not_fit_is_dropped_oldest_first_and_reported_by_the_next_window) {
    begin(1 << 20);
    define(1, 1, "f");
    for (uint64_t seq = 1; seq <= 3; seq++) {
        add('a', "on-cpu", seq, 10, (int64_t)seq);
        ring.first->is_sent = true;
    }
    for (struct ring_item *item = ring.first; item; item = item->next)
        item->is_sent = true;
    ring.limit_bytes = ring.bytes / 3;
    ring_trim(&ring, &tables);
    CHECK_INT(count(), ==, 1);
    CHECK_INT(ring.first->seq, ==, 3);
    CHECK_INT(ring.lost_memory, ==, 2);
    CHECK_INT(ring.lost_samples, ==, 10);
    add('b', "on-cpu", 4, 10, 1);
    add('a', "on-cpu", 5, 10, 1);
    add('a', "on-cpu", 6, 10, 1);
    CHECK_INT(ring.first->next->dropped, ==, 0);
    CHECK_INT(ring.first->next->next->dropped, ==, 10);
    CHECK_INT(ring.first->next->next->next->dropped, ==, 0);
}

TEST(a_window_without_its_stack_or_with_too_many_rows_is_lost_and_counted) {
    begin(1 << 20);
    uint64_t stack = 77;
    int64_t value = 1;
    struct store_window window = window_of('a', "on-cpu", 1, &stack, &value, 1);
    CHECK(!ring_add_window(&ring, &tables, &window));
    CHECK_INT(ring.lost_memory, ==, 1);
    window.row_count = RING_MAX_ROWS + 1;
    CHECK(!ring_add_window(&ring, &tables, &window));
    CHECK_INT(ring.lost_too_large, ==, 1);
    CHECK_INT(ring.lost_samples, ==, 10);
    CHECK_INT(count(), ==, 0);
}

TEST(new_tables_have_what_the_ring_refers_to_and_nothing_else) {
    struct tables fresh;
    begin(1 << 20);
    for (uint64_t id = 1; id <= 100; id++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", (int)id);
        define(id, 1, name);
    }
    add('a', "on-cpu", 1, 50, 5);
    add('b', "on-cpu", 2, 1000, 7);
    const struct store_total total = {
        .seq = 3, .epoch = 1, .host = "h", .process = "web", .thread = "", .cpu_ns = 9};
    CHECK(ring_add_totals(&ring, &tables, &total, 1));
    tables_add_mapping(&tables, tables_find_process(&tables, INSTANCE "a"), "ab12", "/bin/web", 1,
                       2);
    tables_init(&fresh);
    CHECK(ring_renumber(&ring, &tables, &fresh));
    tables_finish(&tables);
    tables = fresh;
    CHECK_INT(count(), ==, 3);
    CHECK_INT(tables.stack_count - 1, ==, 2);
    CHECK_INT(tables.process_count - 1, ==, 2);
    CHECK_INT(tables.bytes, <, 4096);
    const struct ring_item *item = ring.first;
    const struct table_stack *stack = &tables.stacks[item->rows[0].stack];
    CHECK_INT(stack->id, ==, 50);
    CHECK_INT(stack->process, ==, item->process);
    const struct table_frame *frame = &tables.frames[stack->frames[0]];
    CHECK_STR(tables.texts[frame->lines[0].function].text, "f5");
    CHECK_STR(tables.texts[item->event].text, "on-cpu");
    CHECK_STR(tables.texts[item->threads[1]].text, "worker");
    CHECK_INT(item->threads[0], ==, 0);
    const struct table_process *process = &tables.processes[item->process];
    CHECK_STR(process->labels[1], "7");
    CHECK_STR(tables.texts[process->mappings[0].path].text, "/bin/web");
    CHECK_STR(tables.texts[item->next->next->rows[0].stack].text, "web");
}

TEST(better_names_replace_those_before_and_are_told_again) {
    begin(1 << 20);
    define(1, 1, "old");
    struct table_frame *frame = &tables.frames[1];
    frame->stamp = 3;
    define(1, 1, "same version");
    CHECK_STR(tables.texts[frame->lines[0].function].text, "old");
    CHECK_INT(frame->stamp, ==, 3);
    define(1, 2, "new");
    CHECK_STR(tables.texts[frame->lines[0].function].text, "new");
    CHECK_INT(frame->stamp, ==, 0);
}
