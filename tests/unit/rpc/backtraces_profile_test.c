/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/threads/backtraces_profile.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

#define MOST 4096

static char names[MOST][16];
static struct engine_thread_frame frames[MOST];

/* One thread whose frames are called 0 (the leaf), 1, 2 ... */
static struct sonde_profile *profile_of(uint32_t depth) {
    static struct engine_thread_stack stack;
    static const struct engine_thread thread = {
        .tid = 7, .name = "deep", .wait_channel = "", .stack = 1, .error = ""};
    for (uint32_t i = 0; i < depth; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        frames[i] = (struct engine_thread_frame){.name = names[i],
                                                 .file = "",
                                                 .module = "server",
                                                 .address = 0x1000 + i,
                                                 .kind = SONDE_FRAME_APPLICATION};
    }
    stack = (struct engine_thread_stack){.frames = frames, .count = depth, .threads = 1};
    const struct engine_backtraces from = {.target_name = "server",
                                           .threads = &thread,
                                           .thread_count = 1,
                                           .stacks = &stack,
                                           .stack_count = 1,
                                           .note = ""};
    struct sonde_profile *profile;
    CHECK_INT(rpc_backtraces_profile(&from, false, &profile), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(profile), ==, 1);
    return profile;
}

static const char *name_at(const struct sonde_profile *profile, uint32_t place) {
    uint32_t id = sonde_profile_sample(profile, 0).locations[place];
    const struct sonde_location *location = sonde_profile_location(profile, id);
    return sonde_profile_text(profile,
                              sonde_profile_function(profile, location->lines[0].function)->name);
}

TEST(a_stack_that_fits_is_complete) {
    struct sonde_profile *profile = profile_of(SONDE_PROFILE_MAX_DEPTH);
    CHECK_INT(sonde_profile_sample(profile, 0).location_count, ==, SONDE_PROFILE_MAX_DEPTH);
    CHECK_STR(name_at(profile, 512), "512");
    CHECK_STR(name_at(profile, 1023), "1023");
    sonde_profile_destroy(profile);
}

TEST(a_deeper_stack_keeps_leaf_and_root_around_a_note) {
    static const uint32_t depths[] = {SONDE_PROFILE_MAX_DEPTH + 1, 3000, MOST};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        struct sonde_profile *profile = profile_of(depths[i]);
        char root[16];
        CHECK_INT(sonde_profile_sample(profile, 0).location_count, ==, SONDE_PROFILE_MAX_DEPTH);
        CHECK_STR(name_at(profile, 0), "0");
        CHECK_STR(name_at(profile, 511), "511");
        CHECK_STR(name_at(profile, 512), "[truncated]");
        snprintf(root, sizeof root, "%u", depths[i] - 511);
        CHECK_STR(name_at(profile, 513), root);
        snprintf(root, sizeof root, "%u", depths[i] - 1);
        CHECK_STR(name_at(profile, 1023), root);
        sonde_profile_destroy(profile);
    }
}
