/* SPDX-License-Identifier: Apache-2.0
 *
 * H19: memory of a library that was unloaded since is never shown under the library that took its
 * place. */
#include "api/profile/heap/jemalloc.h"
#include "tests/unit/engine/heap/stage.h"

#include <unistd.h>

#define PLACE "tests/unit/engine/heap/"

static const char *const plain[] = {PLACE "plugin_holder_plain", PLACE "libone.so",
                                    PLACE "libtwo.so", NULL};
static const char *const jemalloc[] = {PLACE "plugin_holder", PLACE "libone.so", PLACE "libtwo.so",
                                       NULL};

static struct sonde_profile *snapshot(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    return got.result.profile;
}

#define ROUNDS 20 /* in which the guest reads the maps, whoever walks the stacks */

/* Until the plugin's imports are patched and its unwind table has arrived. */
static void wait_for_whole_stacks(struct stage *stage) {
    int64_t whole = 0;
    for (int i = 0; i < ROUNDS || (i < 200 && whole < 20 << 20); i++) {
        stage_tell(stage, 'f');
        stage_tell(stage, 'h');
        struct sonde_profile *profile = snapshot(stage);
        whole = profile_bytes(profile, "main");
        sonde_profile_destroy(profile);
        usleep(20000);
    }
    CHECK_INT(whole, >=, 20 << 20);
}

static void start(struct stage *stage, const char *conf, const char *const *command) {
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 65536};
    stage_init(stage, conf, command);
    CHECK_INT(stage_ask(stage, on).err, ==, SONDE_OK);
    stage_tell(stage, '1');
    wait_for_whole_stacks(stage);
}

static int64_t bytes_in(const struct sonde_profile *profile, const char *file) {
    size_t type = sonde_profile_find_type(profile, "inuse_space");
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        bool has_file = false;
        for (uint32_t at = 0; at < sample.location_count; at++) {
            uint32_t id = sonde_profile_location(profile, sample.locations[at])->mapping;
            const char *path =
                id ? sonde_profile_text(profile, sonde_profile_mapping(profile, id)->filename) : "";
            has_file |= strstr(path, file) != NULL;
        }
        sum += has_file ? sample.values[type] : 0;
    }
    return sum;
}

/* The dump's text, as jeprof reads it. */
static void check_text(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){.raw = true});
    struct sonde_profile *profile = NULL;
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(sonde_jemalloc_read(sonde_buf_slice(&got.result.text), 1 << 24, &profile, NULL), ==,
              SONDE_OK);
    CHECK_INT(bytes_in(profile, "libone.so"), >=, 20 << 20);
    CHECK_INT(bytes_in(profile, "libtwo.so"), ==, 0);
    CHECK(strstr(got.result.text.data, "libtwo.so") != NULL); /* it is mapped */
    sonde_profile_destroy(profile);
    got_finish(&got);
}

static void check_reuse(struct stage *stage) {
    stage_tell(stage, 'u');
    stage_tell(stage, '2');
    struct sonde_profile *profile = snapshot(stage);
    CHECK_INT(profile_bytes(profile, "hold_one"), >=, 20 << 20);
    CHECK_INT(profile_bytes(profile, "hold_two"), ==, 0);
    CHECK_INT(bytes_in(profile, "libtwo.so"), ==, 0);
    CHECK_INT(bytes_in(profile, "libone.so"), >=, 20 << 20);
    sonde_profile_destroy(profile);
    check_text(stage);
    for (int i = 0; i < 10; i++) { /* the new library's memory is its own */
        stage_tell(stage, 'h');
        usleep(50000);
    }
    profile = snapshot(stage);
    CHECK_INT(profile_bytes(profile, "hold_two"), >, 20 << 20);
    CHECK_NEAR(profile_bytes(profile, "hold_one"), 20 << 20, 1 << 20);
    sonde_profile_destroy(profile);
}

TEST(h19_the_sampler_keeps_an_unloaded_librarys_memory_under_its_functions) {
    struct stage stage;
    start(&stage, NULL, plain);
    check_reuse(&stage);
    stage_finish(&stage);
}

TEST(h19_jemallocs_dumps_keep_an_unloaded_librarys_memory_under_its_functions) {
    struct stage stage;
    start(&stage, STAGE_PROF, jemalloc);
    check_reuse(&stage);
    stage_finish(&stage);
}

TEST(h19_an_unloaded_librarys_memory_keeps_its_names_after_a_restart_of_sonded) {
    struct stage stage;
    start(&stage, NULL, plain);
    stage_restart_engine(&stage);
    struct sonde_profile *profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "hold_one"), >=, 20 << 20);
    CHECK_INT(profile_bytes(profile, "main"), >=, 20 << 20);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}
