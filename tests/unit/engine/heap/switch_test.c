/* SPDX-License-Identifier: Apache-2.0
 *
 * A jemalloc program with the guest preloaded: what can be switched, and what is reported. */
#include "tests/unit/engine/heap/stage.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

TEST(status_reports_what_a_program_with_profiling_can_do) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_JEMALLOC);
    CHECK(asked.state.available && !asked.state.active && !asked.state.accumulates);
    CHECK_INT(asked.state.sample_bytes, ==, 65536);
    CHECK_STR(asked.state.note, "");
    CHECK_STR(asked.state.owner, "");
    stage_finish(&stage);
}

TEST(the_note_of_a_program_with_libcs_malloc_begins_with_what_works) {
    const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};
    struct stage stage;
    stage_init(&stage, NULL, plain);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(strstr(asked.state.note, "Sonde's sampler is ready (backend=interposed)") ==
          asked.state.note);
    CHECK(strstr(asked.state.note, "MALLOC_CONF=prof:true,prof_active:false") != NULL);
    CHECK(strlen(asked.state.note) + 1 < sizeof asked.state.note);
    stage_finish(&stage);
}

static const struct engine_heap_request by_jemalloc = {.verb = ENGINE_HEAP_ACTIVATE,
                                                       .backend = ENGINE_HEAP_JEMALLOC};

TEST(h1_without_prof_the_missing_setting_and_sondes_sampler_are_named) {
    struct stage stage;
    stage_init(&stage, NULL, NULL);
    struct asked asked = stage_ask(&stage, by_jemalloc);
    CHECK_INT(asked.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(asked.diag.text, "MALLOC_CONF=prof:true,prof_active:false") != NULL);
    CHECK(strstr(asked.diag.text, "backend=interposed") != NULL);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.available && !asked.state.active);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
    CHECK(strstr(asked.state.note, "MALLOC_CONF=prof:true,prof_active:false") != NULL);
    CHECK(strstr(asked.state.note, "libjemalloc.so.2") != NULL);
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_NOT_ACTIVE);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_GDUMP_ON);
    CHECK_INT(asked.err, ==, SONDE_NOT_AVAILABLE);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_RESET);
    CHECK_INT(asked.err, ==, SONDE_NOT_ACTIVE);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(!asked.state.was_active);
    stage_finish(&stage);
}

TEST(h1_a_program_without_jemalloc_gets_advice_how_to_preload_it) {
    struct stage stage;
    const char *const command[] = {"cat", NULL};
    stage_init(&stage, STAGE_PROF, command);
    struct asked asked = stage_ask(&stage, by_jemalloc);
    CHECK_INT(asked.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(asked.diag.text, "LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=prof:true") != NULL);
    stage_finish(&stage);
}

TEST(a_jemalloc_inside_the_program_is_found_in_its_symbol_table) {
    struct stage stage;
    const char *const command[] = {"tests/unit/engine/heap/holder_static", NULL};
    stage_init(&stage, STAGE_PROF, command);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "hold_large") >= 50 << 20);
    for (size_t i = 0; i < sonde_profile_sample_count(got.result.profile); i++) { /* H6 */
        const char *leaf = profile_leaf(got.result.profile, i);
        CHECK(strstr(leaf, "malloc") == NULL && strstr(leaf, "prof_") == NULL);
    }
    got_finish(&got);
    stage_finish(&stage);
}

TEST(a_second_activation_is_refused_and_changes_nothing) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct asked asked = stage_ask(
        &stage, (struct engine_heap_request){.verb = ENGINE_HEAP_ACTIVATE, .owner = "first"});
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.active && !asked.state.was_active);
    CHECK_STR(asked.state.owner, "first");
    CHECK(asked.state.active_since_unix_ns > 0);
    struct asked second = stage_ask(
        &stage, (struct engine_heap_request){
                    .verb = ENGINE_HEAP_ACTIVATE, .owner = "second", .sample_bytes = 4096});
    CHECK_INT(second.err, ==, SONDE_SESSION_BUSY);
    CHECK(strstr(second.diag.text, "switched on by first") != NULL);
    second = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK_STR(second.state.owner, "first");
    CHECK_INT(second.state.sample_bytes, ==, 65536);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE);
    CHECK(asked.state.was_active && !asked.state.active);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(!asked.state.was_active);
    stage_finish(&stage);
}

TEST(profiling_that_the_program_switched_on_itself_belongs_to_it) {
    struct stage stage;
    stage_init(&stage, "prof:true", NULL);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(asked.state.active);
    CHECK_STR(asked.state.owner, "target");
    asked = stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE);
    CHECK_INT(asked.err, ==, SONDE_SESSION_BUSY);
    CHECK(strstr(asked.diag.text, "its own configuration") != NULL);
    stage_finish(&stage);
}

TEST(bounds_are_checked_before_anybody_is_asked) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_request request = {.verb = ENGINE_HEAP_ACTIVATE, .interval_s = 86401};
    CHECK_INT(stage_ask(&stage, request).err, ==, SONDE_INVALID_ARGUMENT);
    request = (struct engine_heap_request){.verb = ENGINE_HEAP_RESET, .sample_bytes = 4095};
    CHECK_INT(stage_ask(&stage, request).err, ==, SONDE_INVALID_ARGUMENT);
    struct got got = stage_get(&stage, (struct engine_heap_query){.name = "../../etc/passwd"});
    CHECK_INT(got.err, ==, SONDE_INVALID_ARGUMENT);
    got = stage_get(&stage, (struct engine_heap_query){.name = "000001.heap"});
    CHECK_INT(got.err, ==, SONDE_NOT_FOUND);
    stage_finish(&stage);
}

/* Within three standard deviations, for that many bytes at one sample in R. */
static void check_site(const struct sonde_profile *profile, const char *site, double bytes,
                       double mean) {
    int64_t estimate = profile_bytes(profile, site);
    printf("  %s: %lld of %.0f\n", site, (long long)estimate, bytes);
    CHECK_NEAR(estimate, bytes, 3 * bytes / sqrt(bytes / mean) + 1);
}

static void check_live_set(struct stage *stage, double mean) {
    struct got got = stage_get(stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    const struct sonde_profile *profile = got.result.profile;
    check_site(profile, "hold_small", 64000 * 1024.0, mean);
    check_site(profile, "hold_large", 50 * 1048576.0, mean);
    check_site(profile, "hold_mixed", 160000.0 / 8 * (7 * 32 + 2048), mean);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) /* H6 */
        CHECK(strstr(profile_leaf(profile, i), "malloc") == NULL &&
              strstr(profile_leaf(profile, i), "prof_") == NULL);
    got_finish(&got);
}

TEST(h2_h6_a_known_live_set_is_estimated_by_site_also_after_a_reset) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    check_live_set(&stage, 65536);
    stage_tell(&stage, 'f');
    struct engine_heap_request request = {.verb = ENGINE_HEAP_RESET, .sample_bytes = 30000};
    struct asked asked = stage_ask(&stage, request);
    CHECK_INT(asked.state.sample_bytes, ==, 32768);
    CHECK_INT(asked.state.epoch, ==, 2);
    stage_tell(&stage, 's');
    check_live_set(&stage, 32768);
    stage_finish(&stage);
}

static bool has_mapping(const struct sonde_profile *profile, const struct sonde_sample *sample,
                        const char *file) {
    for (uint32_t i = 0; i < sample->location_count; i++) {
        uint32_t id = sonde_profile_location(profile, sample->locations[i])->mapping;
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, id);
        if (mapping && strstr(sonde_profile_text(profile, mapping->filename), file))
            return true;
    }
    return false;
}

TEST(h11_nothing_that_the_guest_allocates_is_in_jemallocs_profile) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096};
    CHECK_INT(stage_ask(&stage, on).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    for (int i = 0; i < 20; i++) { /* the guest works: it dumps and reports its state */
        struct got dump = stage_get(&stage, (struct engine_heap_query){.raw = true});
        CHECK_INT(dump.err, ==, SONDE_OK);
        got_finish(&dump);
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).err, ==, SONDE_OK);
    }
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(got.result.profile), >, 0);
    for (size_t i = 0; i < sonde_profile_sample_count(got.result.profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(got.result.profile, i);
        CHECK(!has_mapping(got.result.profile, &sample, "libsonde"));
    }
    got_finish(&got);
    stage_finish(&stage);
}

TEST(a_raw_snapshot_is_the_dump_as_jemalloc_wrote_it) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_query query = {.raw = true, .require_active = true};
    struct got got = stage_get(&stage, query);
    CHECK_INT(got.err, ==, SONDE_NOT_ACTIVE);
    CHECK(strstr(sonde_diag_text(&got.diag, got.err), "not activated; `sonde heap on`"));
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    got = stage_get(&stage, query);
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(strncmp(got.result.text.data, "heap_v2/65536\n", 14) == 0);
    CHECK(strstr(got.result.text.data, "\nMAPPED_LIBRARIES:\n") != NULL);
    got_finish(&got);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    got = stage_get(&stage, (struct engine_heap_query){0}); /* the samples stay */
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(profile_bytes(got.result.profile, "hold_small") > 0);
    got_finish(&got);
    stage_finish(&stage);
}

static int count_descriptors(pid_t pid) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* issue 11 */
TEST(dumps_leave_no_descriptor_in_the_program) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    int before = 0;
    for (int i = 0; i < 21; i++) {
        struct got got = stage_get(&stage, (struct engine_heap_query){.raw = true});
        CHECK_INT(got.err, ==, SONDE_OK);
        got_finish(&got);
        /* The guest answers this request after it has closed the dump. */
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).err, ==, SONDE_OK);
        if (i == 0)
            before = count_descriptors(stage.pid);
    }
    CHECK_INT(count_descriptors(stage.pid), ==, before);
    stage_finish(&stage);
}

/* jemalloc opens the path of its dump, which leads through /proc. */
TEST(in_a_chroot_without_proc_jemalloc_is_refused_and_sondes_sampler_works) {
    struct stage stage;
    if (geteuid() != 0)
        check_skip("chroot needs root");
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask(&stage, by_jemalloc).err, ==, SONDE_OK);
    stage_tell(&stage, 'c');
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(got.diag.text, "no /proc (a chroot?)") && strstr(got.diag.text, "interposed"));
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    struct asked asked = stage_ask(&stage, by_jemalloc);
    CHECK_INT(asked.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(asked.diag.text, "no /proc (a chroot?)") != NULL);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
    stage_finish(&stage);
}
