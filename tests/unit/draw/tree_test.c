/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/places.h"
#include "api/draw/tree.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdlib.h>

static struct draw_tree *tree_of(struct sonde_profile *profile,
                                 const struct draw_tree_options *options) {
    struct draw_tree *tree;
    CHECK(profile != NULL);
    CHECK_INT(draw_tree_build(profile, options, &tree, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return tree;
}

/* The node at the end of a path of names, or NULL. */
static const struct draw_node *walk(const struct draw_tree *tree, const char *const *path) {
    uint32_t at = DRAW_TREE_ROOT;
    for (; *path; path++) {
        uint32_t child = draw_tree_node(tree, at)->first_child;
        while (child && strcmp(draw_tree_name(tree, child), *path) != 0)
            child = draw_tree_node(tree, child)->next_sibling;
        if (!child)
            return NULL;
        at = child;
    }
    return draw_tree_node(tree, at);
}

#define WALK(tree, ...) walk(tree, (const char *const[]){__VA_ARGS__, NULL})

TEST(tree_has_root_thread_and_frames_with_inlined_functions) {
    struct draw_tree *tree = tree_of(fixture("server"), &(struct draw_tree_options){0});
    CHECK_STR(draw_tree_name(tree, DRAW_TREE_ROOT), "all");
    CHECK_INT(tree->total, ==, 972);
    const struct draw_node *command = WALK(tree, "server", "main", "event_loop", "process_events",
                                           "read_query", "parse_header", "run_command");
    CHECK(command != NULL);
    CHECK_INT(command->total, ==, 583);
    CHECK_INT(command->self, ==, 60);
    CHECK_INT(command->depth, ==, 7);
    draw_tree_destroy(tree);
}

TEST(tree_merged_has_no_threads) {
    struct draw_tree *tree =
        tree_of(fixture("server"), &(struct draw_tree_options){.merge_threads = true});
    CHECK(WALK(tree, "main") != NULL);
    CHECK(WALK(tree, "server") == NULL);
    CHECK_INT(WALK(tree, "thread_start", "background_jobs")->total, ==, 130);
    draw_tree_destroy(tree);
}

TEST(tree_uses_the_requested_sample_type) {
    struct draw_tree *tree =
        tree_of(fixture("server"), &(struct draw_tree_options){.type_index = 1});
    CHECK_INT(tree->total, ==, 972 * 10101010ll);
    draw_tree_destroy(tree);
}

TEST(tree_siblings_are_sorted_by_name) {
    struct draw_tree *tree = tree_of(fixture("server"), &(struct draw_tree_options){0});
    for (uint32_t i = 0; i < tree->nodes.count; i++) {
        uint32_t next = draw_tree_node(tree, i)->next_sibling;
        if (next)
            CHECK(strcmp(draw_tree_name(tree, i), draw_tree_name(tree, next)) <= 0);
    }
    draw_tree_destroy(tree);
}

TEST(tree_totals_are_self_and_children_everywhere) {
    struct draw_tree *tree = tree_of(fixture("large"), &(struct draw_tree_options){0});
    CHECK_INT(tree->nodes.count, >, 10000);
    for (uint32_t i = 0; i < tree->nodes.count; i++) {
        const struct draw_node *node = draw_tree_node(tree, i);
        int64_t sum = node->self;
        for (uint32_t at = node->first_child; at; at = draw_tree_node(tree, at)->next_sibling)
            sum += draw_tree_node(tree, at)->total;
        CHECK_INT(sum, ==, node->total);
    }
    draw_tree_destroy(tree);
}

struct visits {
    uint32_t entered, left, deepest, depth;
};

static void on_enter(void *context, uint32_t node) {
    struct visits *visits = context;
    visits->entered++;
    visits->depth++;
    if (visits->depth > visits->deepest)
        visits->deepest = visits->depth;
}

static void on_leave(void *context, uint32_t node) {
    struct visits *visits = context;
    visits->left++;
    visits->depth--;
}

TEST(tree_walk_enters_and_leaves_every_node_once) {
    struct draw_tree *tree = tree_of(fixture("server"), &(struct draw_tree_options){0});
    struct visits visits = {0};
    draw_tree_walk(tree, on_enter, on_leave, &visits);
    CHECK_INT(visits.entered, ==, tree->nodes.count);
    CHECK_INT(visits.left, ==, tree->nodes.count);
    CHECK_INT(visits.depth, ==, 0);
    CHECK_INT(visits.deepest, ==, 11); /* all, server, and nine frames of the recursion */
    draw_tree_destroy(tree);
}

TEST(tree_of_nothing_is_a_root) {
    struct draw_tree *tree = tree_of(fixture("empty"), &(struct draw_tree_options){0});
    struct visits visits = {0};
    CHECK_INT(tree->nodes.count, ==, 1);
    CHECK_INT(tree->total, ==, 0);
    draw_tree_walk(tree, on_enter, on_leave, &visits);
    CHECK_INT(visits.entered, ==, 1);
    draw_tree_destroy(tree);
}

/* A profile with one sample of `locations` locations with `lines` functions each. */
static struct sonde_profile *deep(uint32_t locations, uint32_t lines, int64_t value) {
    const struct sonde_value_type type = {"inuse_space", "bytes"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    static struct sonde_line line[1024];
    static uint32_t ids[SONDE_PROFILE_MAX_DEPTH];
    struct sonde_function function = {0};
    CHECK_INT(sonde_profile_string(profile, "f", 1, &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line[0].function), ==, SONDE_OK);
    for (uint32_t i = 0; i < lines; i++)
        line[i] = line[0];
    for (uint32_t i = 0; i < locations; i++) {
        struct sonde_location location = {.address = 16 + i, .line_count = lines, .lines = line};
        CHECK_INT(sonde_profile_add_location(profile, &location, &ids[i]), ==, SONDE_OK);
    }
    struct sonde_sample sample = {.locations = ids, .location_count = locations, .values = &value};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

TEST(tree_deeper_than_the_limit_ends_in_a_frame_that_says_so) {
    struct draw_tree *tree = tree_of(deep(1024, 8, 5), &(struct draw_tree_options){0});
    CHECK_INT(tree->nodes.count, ==, DRAW_TREE_MAX_DEPTH + 1);
    CHECK_STR(draw_tree_name(tree, DRAW_TREE_MAX_DEPTH), "[deeper frames]");
    CHECK_INT(draw_tree_node(tree, DRAW_TREE_MAX_DEPTH)->self, ==, 5);
    CHECK_INT(tree->total, ==, 5);
    draw_tree_destroy(tree);
}

TEST(tree_at_the_limit_draws_in_every_format) {
    size_t count;
    const struct sonde_format_info *rows = sonde_format_table(&count);
    struct sonde_profile *profile = deep(1024, 8, 5);
    for (size_t i = 0; i < count; i++) {
        struct sonde_buf out = {0};
        if (rows[i].is_drawn && rows[i].format != SONDE_FORMAT_CHANGES)
            CHECK_INT(sonde_draw(profile, rows[i].format, NULL, &out, NULL), ==, SONDE_OK);
        sonde_buf_finish(&out);
    }
    sonde_profile_destroy(profile);
}

TEST(tree_ignores_negative_values_only_with_no_negatives) {
    struct draw_tree *tree = tree_of(deep(3, 1, -5), &(struct draw_tree_options){0});
    CHECK_INT(tree->total, ==, -5);
    draw_tree_destroy(tree);
    tree = tree_of(deep(3, 1, -5), &(struct draw_tree_options){.no_negatives = true});
    CHECK_INT(tree->total, ==, 0);
    draw_tree_destroy(tree);
}

TEST(tree_sum_counts_a_recursive_function_once) {
    struct draw_tree *tree = tree_of(deep(10, 1, 7), &(struct draw_tree_options){0});
    CHECK_INT(draw_tree_sum(tree), ==, SONDE_OK);
    const struct draw_frame *frame = draw_tree_frame(tree, 1);
    CHECK_STR(frame->name, "f");
    CHECK_INT(frame->flat, ==, 7);
    CHECK_INT(frame->cum, ==, 7);
    draw_tree_destroy(tree);
}

static uint32_t text_id(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, text, strlen(text), &id), ==, 0);
    return id;
}

/* A location with "read" of each file, the innermost first. */
static uint32_t reads(struct sonde_profile *profile, uint64_t address, const char *const *files) {
    struct sonde_line lines[4];
    struct sonde_location location = {.address = address, .lines = lines};
    for (; *files; files++) {
        struct sonde_function function = {
            .name = text_id(profile, "read"),
            .system_name = text_id(profile, location.line_count ? "read" : "__libc_read"),
            .filename = text_id(profile, *files),
            .start_line = location.line_count + 1};
        struct sonde_line *line = &lines[location.line_count++];
        CHECK_INT(sonde_profile_add_function(profile, &function, &line->function), ==, 0);
        line->line = location.line_count;
    }
    uint32_t id;
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, 0);
    return id;
}

#define READS(profile, address, ...) reads(profile, address, (const char *[]){__VA_ARGS__, NULL})

/* The deepest node of one stack, whose outermost location comes first. */
static uint32_t depth_of(struct sonde_profile *profile, uint32_t outer, uint32_t inner) {
    const int64_t value = 1;
    const uint32_t locations[] = {inner, outer};
    const struct sonde_sample sample = {
        .locations = locations, .location_count = 2, .values = &value};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, 0);
    struct draw_tree *tree = tree_of(profile, &(struct draw_tree_options){0});
    uint32_t depth = draw_tree_node(tree, tree->nodes.count - 1)->depth;
    draw_tree_destroy(tree);
    return depth;
}

static struct sonde_profile *profile_of_counts(void) {
    const struct sonde_value_type type = {"samples", "count"};
    return sonde_profile_create(&type, 1, 0);
}

TEST(tree_merges_a_function_with_one_of_its_name_and_file_inlined_into_it) {
    struct sonde_profile *profile = profile_of_counts();
    uint32_t main_ = READS(profile, 1, "main.c"), twice = READS(profile, 2, "read.c", "read.c");
    CHECK_INT(depth_of(profile, main_, twice), ==, 2);
}

TEST(tree_keeps_calls_and_inlined_functions_of_other_files) {
    struct sonde_profile *profile = profile_of_counts();
    uint32_t wrapper = READS(profile, 1, "read.c", "wrapper.c");
    CHECK_INT(depth_of(profile, wrapper, READS(profile, 2, "read.c")), ==, 3);
    profile = profile_of_counts();
    uint32_t unknown = READS(profile, 1, "", "");
    CHECK_INT(depth_of(profile, unknown, READS(profile, 2, "read.c")), ==, 3);
}

/* Adds a stack of two processes' functions; returns its last node. */
static void add_stack(struct draw_tree *tree, const char *process, const char *function,
                      int64_t value) {
    const struct draw_frame outer = {.name = process, .module = ""};
    const struct draw_frame inner = {.name = function, .module = "libc.so.6"};
    uint32_t node;
    CHECK_INT(draw_tree_child(tree, DRAW_TREE_ROOT, draw_tree_intern(tree, &outer), &node), ==, 0);
    CHECK_INT(draw_tree_child(tree, node, draw_tree_intern(tree, &inner), &node), ==, 0);
    draw_tree_node(tree, node)->self += value;
}

static const char *process_of(const struct draw_tree *tree, const struct draw_place *places,
                              const char *function) {
    static struct sonde_buf text;
    text.len = 0;
    sonde_buf_puts(&text, "");
    for (uint32_t i = 0; i < tree->frames.count; i++)
        if (strcmp(draw_tree_frame(tree, i)->name, function) == 0)
            draw_put_process(&text, tree, &places[i]);
    return text.data;
}

TEST(a_function_of_several_processes_has_the_one_that_spent_most_in_it) {
    const struct draw_frame root = {.name = "all", .module = ""};
    struct draw_tree *tree;
    CHECK_INT(draw_tree_create(&root, &tree), ==, 0);
    add_stack(tree, "redis-server (pid 7)", "read", 5);
    add_stack(tree, "nginx (pid 8)", "read", 9);
    add_stack(tree, "nginx (pid 9)", "read", 2);
    add_stack(tree, "nginx (pid 9)", "write", 1);
    CHECK_INT(draw_tree_complete(tree), ==, 0);
    struct draw_place *places = draw_places(tree);
    CHECK(places != NULL);
    CHECK_STR(process_of(tree, places, "read"), "nginx");
    CHECK_STR(process_of(tree, places, "write"), "nginx");
    CHECK_STR(process_of(tree, places, "nginx (pid 9)"), "");
    free(places);
    draw_tree_destroy(tree);
}
