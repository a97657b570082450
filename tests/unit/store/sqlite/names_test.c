/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks and frames: stored once, found by id, contradictions rejected. */
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <string.h>

static struct scene scene;
static const uint64_t frames_of_7[] = {70, 71, UINT64_MAX}, frames_of_8[] = {71};

static struct store_frame frame(uint64_t id, const char *build_id, uint64_t address,
                                uint32_t version, const struct store_line *lines, uint32_t count) {
    return (struct store_frame){.id = id,
                                .build_id = build_id,
                                .module = "/bin/redis",
                                .address = address,
                                .kind = SONDE_FRAME_APPLICATION,
                                .version = version,
                                .lines = lines,
                                .line_count = count};
}

static struct store_put_result put(const struct store_stack *stacks, size_t stack_count,
                                   const struct store_frame *frames, size_t frame_count) {
    struct store_batch batch = {
        .stacks = stacks, .stack_count = stack_count, .frames = frames, .frame_count = frame_count};
    struct store_put_result result;
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    return result;
}

static struct store_stack *find_stacks(const char *service, const uint64_t *ids, size_t count,
                                       size_t expected) {
    struct store_stack *found;
    size_t found_count;
    CHECK_INT(scene.store->ops->stacks(scene.store, service, ids, count, NULL, &scene.arena, &found,
                                       &found_count, NULL),
              ==, SONDE_OK);
    CHECK_INT(found_count, ==, expected);
    return found;
}

static struct store_frame *find_frames(const uint64_t *ids, size_t count, size_t expected) {
    struct store_frame *found;
    size_t found_count;
    CHECK_INT(scene.store->ops->frames(scene.store, ids, count, NULL, &scene.arena, &found,
                                       &found_count, NULL),
              ==, SONDE_OK);
    CHECK_INT(found_count, ==, expected);
    return found;
}

static const struct store_stack stacks[] = {{"redis", 7, frames_of_7, 3},
                                            {"redis", 8, frames_of_8, 1}};

/* One of the stacks is number 7. */
static void check_seven(const struct store_stack *found) {
    const struct store_stack *seven = found->id == 7 ? found : &found[1];
    CHECK_INT(seven->id, ==, 7);
    CHECK_INT(seven->frame_count, ==, 3);
    CHECK(memcmp(seven->frames, frames_of_7, sizeof frames_of_7) == 0);
    CHECK_STR(seven->service, "redis");
}

TEST(stacks_are_found_by_service_and_id) {
    scene_open(&scene);
    const uint64_t ids[] = {8, 7, 9};
    scene_put(&scene, &(struct spec){.begin = HOUR}); /* stack 7, without frames */
    find_stacks("redis", ids, 3, 0);
    CHECK_INT(put(stacks, 2, NULL, 0).rejected, ==, 0);
    struct store_stack *found = find_stacks("redis", ids, 3, 2);
    check_seven(found);
    find_stacks("nginx", ids, 3, 0);
    scene_reopen(&scene, NULL);
    check_seven(find_stacks("redis", ids, 3, 2));
    check_seven(find_stacks("redis", ids + 1, 1, 1));
    /* Many others: each is then looked up by itself. */
    for (uint64_t id = 100; id < 200; id++) {
        struct store_stack other = {"redis", id, frames_of_8, 1};
        put(&other, 1, NULL, 0);
    }
    check_seven(find_stacks("redis", ids, 3, 2));
    scene_close(&scene);
}

TEST(a_stack_with_the_same_id_and_other_frames_is_rejected_and_counted) {
    scene_open(&scene);
    struct store_stack other = {"redis", 7, frames_of_8, 1},
                       elsewhere = {"nginx", 7, frames_of_8, 1};
    put(stacks, 2, NULL, 0);
    CHECK_INT(put(stacks, 2, NULL, 0).rejected, ==, 0);
    CHECK_INT(put(&other, 1, NULL, 0).rejected, ==, 1);
    CHECK_INT(put(&elsewhere, 1, NULL, 0).rejected, ==, 0);
    const uint64_t id = 7;
    CHECK_INT(find_stacks("redis", &id, 1, 1)->frame_count, ==, 3);
    scene_close(&scene);
}

TEST(better_names_replace_worse_ones) {
    scene_open(&scene);
    struct store_line first[] = {{"main", "a.c", 3}};
    struct store_line second[] = {{"inlined", "b.h", 0}, {"main", "a.c", UINT32_MAX}};
    const uint64_t ids[] = {70, 71};
    struct store_frame frames[] = {frame(70, "ab", 16, 2, first, 1),
                                   frame(71, "", UINT64_MAX, 0, NULL, 0)};
    CHECK_INT(put(NULL, 0, frames, 2).rejected, ==, 0);
    struct store_frame *found = find_frames(ids, 2, 2);
    CHECK_INT(found[0].line_count, ==, 1);
    CHECK_STR(found[0].lines[0].function, "main");
    CHECK_STR(found[0].build_id, "ab");
    CHECK_STR(found[0].module, "/bin/redis");
    CHECK_INT(found[0].address, ==, 16);
    CHECK_INT(found[1].line_count, ==, 0);
    CHECK(found[1].address == UINT64_MAX);
    struct store_frame older = frame(70, "ab", 16, 1, second, 2);
    put(NULL, 0, &older, 1);
    CHECK_INT(find_frames(ids, 1, 1)->line_count, ==, 1);
    struct store_frame newer = frame(70, "ab", 16, 3, second, 2);
    newer.module = "/usr/bin/redis"; /* the build-id is the same: the same frame */
    CHECK_INT(put(NULL, 0, &newer, 1).rejected, ==, 0);
    found = find_frames(ids, 1, 1);
    CHECK_INT(found->line_count, ==, 2);
    CHECK_INT(found->version, ==, 3);
    CHECK_STR(found->lines[0].function, "inlined");
    CHECK(found->lines[1].line == UINT32_MAX);
    struct store_frame contradictions[] = {frame(70, "ab", 17, 4, first, 1),
                                           frame(70, "cd", 16, 4, first, 1),
                                           frame(71, "ab", UINT64_MAX, 4, first, 1)};
    CHECK_INT(put(NULL, 0, contradictions, 3).rejected, ==, 3);
    CHECK_INT(find_frames(ids, 1, 1)->version, ==, 3);
    scene_close(&scene);
}

TEST(frames_without_names_are_listed_newest_first) {
    scene_open(&scene);
    struct store_line line = {"main", "", 0};
    struct store_frame frames[] = {frame(1, "ab", 1, 0, NULL, 0), frame(2, "ab", 2, 1, &line, 1),
                                   frame(3, "ab", 3, 0, NULL, 0), frame(4, "ab", 4, 1, NULL, 0)};
    put(stacks, 2, frames, 4); /* frames of the stacks are not defined */
    struct store_frame *found;
    size_t count;
    for (size_t limit = 1; limit < 4; limit++) {
        CHECK_INT(scene.store->ops->unnamed(scene.store, limit, &scene.arena, &found, &count, NULL),
                  ==, SONDE_OK);
        CHECK_INT(count, ==, limit < 2 ? limit : 2);
        CHECK_INT(found[0].id, ==, 3);
    }
    struct store_frame named = frame(3, "ab", 3, 1, &line, 1);
    put(NULL, 0, &named, 1);
    CHECK_INT(scene.store->ops->unnamed(scene.store, 9, &scene.arena, &found, &count, NULL), ==, 0);
    CHECK_INT(count, ==, 1);
    CHECK_INT(found[0].id, ==, 1);
    scene_close(&scene);
}
