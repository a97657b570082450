/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/stacks.h"
#include "service/engine/report/thread_names.h"
#include "tests/unit/check.h"
#include "tests/unit/colliding_keys.h"

#include <stdio.h>

static struct ring_sample *sample_of(const uint64_t *pcs, uint16_t depth, uint8_t end,
                                     uint16_t gap_at) {
    static _Alignas(8) char bytes[sizeof(struct ring_sample) + RING_MAX_DEPTH * 8];
    struct ring_sample *sample = (struct ring_sample *)bytes;
    memset(bytes, 0, sizeof bytes);
    sample->record.depth = depth;
    sample->record.generation = 1;
    sample->end = end;
    sample->gap_at = gap_at;
    memcpy(sample->pcs, pcs, depth * sizeof *pcs);
    return sample;
}

/* The stack as text, "leaf;...;root", with hexadecimal pcs and notes. */
static const char *text_of(const struct stacks *stacks, uint32_t id) {
    static char text[4096];
    size_t len = 0;
    text[0] = 0;
    for (; id != 0; id = stacks_node(stacks, id)->parent) {
        const struct stack_node *node = stacks_node(stacks, id);
        const char *separator = len ? ";" : "";
        if (node->mapping == STACKS_NOTE)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", separator,
                                    stack_note_text(node->pc));
        else
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%llx", separator,
                                    (unsigned long long)(node->pc & ~RING_PC_EXACT));
    }
    return text;
}

TEST(equal_stacks_are_one_and_share_their_roots) {
    struct stacks *stacks = stacks_create(0, 0);
    struct space space = {0};
    const uint64_t first[] = {5, 3, 2, 1}, second[] = {6, 3, 2, 1};
    uint32_t a = stacks_add_sample(stacks, 0, &space, sample_of(first, 4, RING_END_ROOT, 0));
    uint32_t nodes = stacks->nodes.count;
    CHECK_INT(stacks_add_sample(stacks, 0, &space, sample_of(first, 4, RING_END_ROOT, 0)), ==, a);
    CHECK_INT(stacks->nodes.count, ==, nodes);
    uint32_t b = stacks_add_sample(stacks, 0, &space, sample_of(second, 4, RING_END_ROOT, 0));
    CHECK(a != b);
    CHECK_INT(stacks->nodes.count, ==, nodes + 1);
    CHECK_STR(text_of(stacks, a), "5;3;2;1");
    stacks_release(stacks);
    space_finish(&space);
}

TEST(only_the_leaf_and_marked_pcs_are_exact) {
    struct stacks *stacks = stacks_create(0, 0);
    struct space space = {0};
    const uint64_t pcs[] = {5, 3 | RING_PC_EXACT, 1};
    uint32_t leaf = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 3, RING_END_ROOT, 0));
    const struct stack_node *node = stacks_node(stacks, leaf);
    CHECK(node->pc == (5 | RING_PC_EXACT));
    node = stacks_node(stacks, node->parent);
    CHECK(node->pc == (3 | RING_PC_EXACT));
    node = stacks_node(stacks, node->parent);
    CHECK(node->pc == 1);
    stacks_release(stacks);
    space_finish(&space);
}

TEST(cut_stacks_say_where_and_why) {
    struct stacks *stacks = stacks_create(0, 0);
    struct space space = {0};
    const uint64_t pcs[] = {4, 3, 2, 1};
    uint32_t id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 4, RING_END_DEPTH, 2));
    CHECK_STR(text_of(stacks, id), "4;3;[truncated];2;1");
    id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 4, RING_END_DEPTH, 0));
    CHECK_STR(text_of(stacks, id), "4;3;2;1;[truncated]");
    id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 2, RING_END_NO_TABLE, 0));
    CHECK_STR(text_of(stacks, id), "4;3;[no unwind table]");
    id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 2, RING_END_BAD_STACK, 0));
    CHECK_STR(text_of(stacks, id), "4;3;[bad stack]");
    id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 0, RING_END_ROOT, 0));
    CHECK_STR(text_of(stacks, id), "[no stack]");
    stacks_release(stacks);
    space_finish(&space);
}

TEST(the_tree_ends_at_its_bound_and_known_stacks_still_fit) {
    struct stacks *stacks = stacks_create(1000, 0);
    struct space space = {0};
    uint32_t full = 0, first = 0;
    for (uint64_t i = 1; i < 3000; i++) {
        const uint64_t pcs[] = {i, 7};
        uint32_t id = stacks_add_sample(stacks, 0, &space, sample_of(pcs, 2, RING_END_ROOT, 0));
        first = first ? first : id;
        full += id == STACKS_FULL;
    }
    CHECK_INT(stacks->nodes.count, ==, 1000);
    CHECK_INT(full, ==, 2999 - 998);
    const uint64_t pcs[] = {1, 7};
    CHECK_INT(stacks_add_sample(stacks, 0, &space, sample_of(pcs, 2, RING_END_ROOT, 0)), ==, first);
    stacks_release(stacks);
    space_finish(&space);
}

TEST(many_nodes_are_found_again_after_the_index_grew) {
    struct stacks *stacks = stacks_create(0, 0);
    enum { COUNT = 100000 };
    static uint32_t ids[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        ids[i] = stacks_add_frame(stacks, i % 100, 0, i);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_INT(stacks_add_frame(stacks, i % 100, 0, i), ==, ids[i]);
    stacks_release(stacks);
}

static struct ring_thread thread_of(uint32_t tid, const char *name, uint32_t label,
                                    const char *text) {
    struct ring_thread thread = {
        .record = {.tid = tid}, .label = label, .label_len = (uint32_t)strlen(text)};
    memcpy(thread.name, name, strnlen(name, sizeof thread.name));
    memcpy(thread.text, text, strnlen(text, sizeof thread.text));
    return thread;
}

TEST(a_process_is_the_outermost_frame_of_its_stacks) {
    struct stacks *stacks = stacks_create(0, 0);
    struct space space = {0};
    uint64_t pcs[] = {0x1010, 0x1020};
    uint32_t web = stacks_add_process(stacks, "web (12)"), db = stacks_add_process(stacks, "db");
    uint32_t below_web =
        stacks_add_sample(stacks, web, &space, sample_of(pcs, 2, RING_END_ROOT, 0));
    uint32_t below_db = stacks_add_sample(stacks, db, &space, sample_of(pcs, 2, RING_END_ROOT, 0));
    CHECK_INT(web, !=, db);
    CHECK_INT(below_web, !=, below_db);
    CHECK_INT(stacks_add_process(stacks, "web (12)"), ==, web);
    uint32_t root = stacks_node(stacks, stacks_node(stacks, below_web)->parent)->parent;
    CHECK_INT(root, ==, web);
    CHECK_STR(stacks_process(stacks, stacks_node(stacks, root)->pc), "web (12)");
    CHECK(stacks_mapping(stacks, stacks_node(stacks, root)->mapping) == NULL);
    uint32_t note = stacks_add_note(stacks, db, STACK_NOTE_EMPTY);
    CHECK_INT(stacks_node(stacks, note)->parent, ==, db);
    CHECK_INT(stacks_add_sample(stacks, db, &space, sample_of(pcs, 0, RING_END_ROOT, 0)), ==, note);
    CHECK_INT(stacks_add_note(stacks, STACKS_FULL, STACK_NOTE_EMPTY), ==, STACKS_FULL);
    stacks_release(stacks);
    space_finish(&space);
}

TEST(processes_beyond_the_limit_share_a_node) {
    struct stacks *stacks = stacks_create(0, 0);
    char text[32];
    uint32_t first = stacks_add_process(stacks, "p 1"), last = 0;
    for (uint32_t i = 2; i < STACKS_MAX_PROCESSES + 10; i++) {
        snprintf(text, sizeof text, "p %u", i);
        last = stacks_add_process(stacks, text);
        CHECK(last != STACKS_FULL);
    }
    CHECK_STR(stacks_process(stacks, stacks_node(stacks, last)->pc), "[other processes]");
    CHECK_INT(stacks->processes.count, ==, STACKS_MAX_PROCESSES);
    CHECK_INT(stacks_add_process(stacks, "p 1"), ==, first);
    stacks_release(stacks);
}

TEST(spans_are_kept_once_and_up_to_the_limit) {
    struct stacks *stacks = stacks_create(0, 0);
    struct ring_span span = {.request = 0};
    stacks_add_span(stacks, &span); /* 0 means "none" */
    CHECK_INT(stacks->spans.count, ==, 1);
    for (uint64_t request = 1; request < STACKS_MAX_SPANS + 10; request++) {
        span.request = request;
        stacks_add_span(stacks, &span);
        stacks_add_span(stacks, &span);
        CHECK_INT(stacks->spans.count, ==,
                  request < STACKS_MAX_SPANS ? request + 1 : STACKS_MAX_SPANS);
    }
    stacks_release(stacks);
}

TEST(locks_are_kept_with_their_owners_and_those_beyond_the_limit_share_a_number) {
    struct stacks *stacks = stacks_create(0, 0);
    struct stack_lock lock = {.address = 4096, .pid = 1, .mutex_owner = 1};
    uint32_t first = stacks_add_lock(stacks, &lock);
    CHECK_INT(first, !=, 0);
    CHECK_INT(stacks_add_lock(stacks, &lock), ==, first);
    lock.mutex_owner = 2;
    CHECK_INT(stacks_add_lock(stacks, &lock), !=, first);
    for (uint64_t i = 1; i < 2 * STACKS_MAX_LOCKS; i++) {
        lock.address = 4096 + 64 * i;
        CHECK_INT(stacks_add_lock(stacks, &lock), <, STACKS_MAX_LOCKS);
    }
    CHECK_INT(stacks->locks.count, ==, STACKS_MAX_LOCKS);
    CHECK_INT(stacks_add_lock(stacks, &lock), ==, STACKS_MAX_LOCKS - 1);
    CHECK(stacks_lock(stacks, STACKS_MAX_LOCKS - 1)->address == 0);
    lock = (struct stack_lock){.address = 4096, .pid = 1, .mutex_owner = 1};
    CHECK_INT(stacks_add_lock(stacks, &lock), ==, first);
    stacks_release(stacks);
}

TEST(a_thread_of_several_processes_is_numbered_by_pid_and_tid) {
    struct stacks *stacks = stacks_create(0, 0);
    uint32_t one = stacks_add_thread(stacks, 10, 11, "io"),
             two = stacks_add_thread(stacks, 20, 11, "io");
    CHECK_INT(one, !=, two);
    CHECK_INT(stacks_add_thread(stacks, 10, 11, "io"), ==, one);
    stacks_release(stacks);
}

static const struct stack_thread *thread_at(const struct stacks *stacks, uint32_t id) {
    return stable_vector_at(&stacks->threads, id);
}

TEST(threads_are_named_as_they_are_now) {
    struct stacks *stacks = stacks_create(0, 0);
    struct thread_names names = {0};
    struct ring_thread thread = thread_of(7, "worker", 0, "");
    uint32_t unnamed = thread_names_number(&names, stacks, 7);
    CHECK_STR(thread_at(stacks, unnamed)->name, "");
    CHECK_INT(thread_at(stacks, unnamed)->tid, ==, 7);
    thread_names_learn(&names, &thread);
    uint32_t worker = thread_names_number(&names, stacks, 7);
    CHECK_STR(thread_at(stacks, worker)->name, "worker");
    CHECK_INT(thread_names_number(&names, stacks, 7), ==, worker);
    thread = thread_of(7, "exactly16bytes!!", 0, "");
    thread_names_learn(&names, &thread);
    CHECK_STR(thread_at(stacks, thread_names_number(&names, stacks, 7))->name, "exactly16bytes!!");
    struct stacks *next = stacks_create(0, 0);
    CHECK_STR(thread_at(next, thread_names_number(&names, next, 7))->name, "exactly16bytes!!");
    stacks_release(next);
    stacks_release(stacks);
    thread_names_finish(&names);
}

TEST(a_hundred_thousand_threads_stay_within_the_bound) {
    struct stacks *stacks = stacks_create(0, 0);
    struct thread_names names = {0};
    for (uint32_t tid = 1; tid <= 100000; tid++) {
        struct ring_thread thread = thread_of(tid, "short", 0, "");
        thread_names_learn(&names, &thread);
        CHECK(thread_names_number(&names, stacks, tid) != STACKS_FULL);
    }
    uint32_t first = thread_names_number(&names, stacks, 99000);
    uint32_t last = thread_names_number(&names, stacks, 100000);
    CHECK_INT(first, ==, last); /* they share an entry without a tid */
    CHECK_STR(thread_at(stacks, last)->name, "short");
    CHECK_INT(thread_at(stacks, last)->tid, ==, 0);
    CHECK_INT(stacks->threads.count, <=, STACKS_MAX_THREADS);
    stacks_release(stacks);
    thread_names_finish(&names);
}

TEST(labels_have_the_text_of_their_record_and_hostile_ids_none) {
    struct stacks *stacks = stacks_create(0, 0);
    struct thread_names names = {0};
    struct ring_thread thread = thread_of(7, "w", 3, "compaction");
    thread_names_learn(&names, &thread);
    uint32_t id = thread_names_label(&names, stacks, 3);
    CHECK_STR(((struct stack_label *)stable_vector_at(&stacks->labels, id))->text, "compaction");
    CHECK_INT(thread_names_label(&names, stacks, 0), ==, 0);
    CHECK_INT(thread_names_label(&names, stacks, 4), ==, 0);
    CHECK_INT(thread_names_label(&names, stacks, UINT32_MAX), ==, 0);
    thread = thread_of(7, "w", UINT32_MAX, "x");
    thread_names_learn(&names, &thread);
    stacks_release(stacks);
    thread_names_finish(&names);
}

TEST(stacks_that_are_made_to_collide_cost_no_more_than_others) {
    enum { COUNT = 60000 };
    struct stacks *stacks = stacks_create(0, 0);
    struct space space = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t pc = colliding_word(0, i); /* no parent, no mapping */
        CHECK(stacks_add_frame(stacks, 0, 0, pc) != STACKS_FULL);
    }
    CHECK_INT(stacks->nodes.count, ==, COUNT + 1);
    CHECK_INT(hash_index_distance(&stacks->node_index), <, 3 * COUNT);
    for (uint32_t tid = 1; tid < STACKS_MAX_THREADS; tid++)
        CHECK(stacks_add_thread(stacks, 0, tid << 16 | tid >> 16, "") != STACKS_FULL);
    CHECK_INT(hash_index_distance(&stacks->thread_index), <, 3 * STACKS_MAX_THREADS);
    stacks_release(stacks);
    space_finish(&space);
}

TEST(the_stacks_of_all_programs_of_a_user_have_a_limit) {
    const uid_t user = 400000, other = 400001;
    struct stacks *first = stacks_create(0, user), *second = stacks_create(0, user);
    uint32_t parent = 0, added = 0;
    for (; added < STACKS_MAX_NODES && parent != STACKS_FULL; added++)
        parent = stacks_add_frame(first, 0, 0, added);
    for (parent = 0, added = 0; added < STACKS_MAX_NODES && parent != STACKS_FULL; added++)
        parent = stacks_add_frame(second, 0, 0, added);
    struct stacks *third = stacks_create(0, user);
    for (parent = 0, added = 0; third && added < STACKS_MAX_NODES && parent != STACKS_FULL; added++)
        parent = stacks_add_frame(third, 0, 0, added);
    CHECK(!third || third->lacks_memory);
    CHECK_INT(memory_share_used_by(user), <=, MEMORY_USER);
    struct stacks *neighbour = stacks_create(0, other);
    CHECK(neighbour != NULL);
    CHECK_INT(stacks_add_frame(neighbour, 0, 0, 1), ==, 1);
    stacks_release(first);
    stacks_release(second);
    stacks_release(third);
    CHECK_INT(memory_share_used_by(user), ==, 0);
    third = stacks_create(0, user);
    CHECK_INT(stacks_add_frame(third, 0, 0, 1), ==, 1);
    stacks_release(third);
    stacks_release(neighbour);
    CHECK_INT(memory_share_used(), ==, 0);
}

TEST(names_of_many_threads_are_kept_while_the_cache_grows) {
    struct thread_names names = {.share.uid = 400000};
    struct ring_thread thread = {0};
    for (uint32_t tid = 1; tid <= 3000; tid++) {
        thread.record.tid = tid;
        snprintf(thread.name, sizeof thread.name, "t%u", tid);
        thread_names_learn(&names, &thread);
    }
    uint32_t kept = 0;
    for (uint32_t tid = 1; tid <= 3000; tid++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", tid);
        const char *found = thread_names_get(&names, tid);
        kept += found && strcmp(found, name) == 0;
    }
    CHECK_INT(kept, >=, 2900);
    CHECK_INT(memory_share_used_by(400000), <=, 8 * 3000 * sizeof(struct name_slot));
    thread_names_finish(&names);
    CHECK_INT(memory_share_used_by(400000), ==, 0);
}
