/* SPDX-License-Identifier: Apache-2.0
 *
 * Polled allocations of a real program. */
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};

#define OBJECTS (64000.0 + 50 + 160000) /* allocated by command 's' */
#define EVERY   60000                   /* the longest time for which all can be sampled, in ms */

struct answer {
    sonde_err err;
    struct sonde_diag diag;
    double objects;
    int64_t duration_ns;
};

static struct answer ask(struct stage *stage, const char *key, bool is_total, uint32_t lease_ms) {
    struct engine_allocs_spec spec = {
        .target = stage->target, .sample_bytes = 1, .duration_ms = lease_ms};
    struct answer answer = {0};
    struct collected collected;
    collect_init(&collected);
    answer.err = engine_allocs_poll(stage->engine, &spec, key, is_total, &collect_events,
                                    &collected, &answer.diag);
    if (!answer.err) {
        collect_wait_end(&collected);
        answer.err = collected.err;
        answer.diag = collected.diag;
    }
    if (!answer.err) {
        const struct sonde_profile *profile = collected.profiles[0];
        CHECK_INT(collected.profile_count, ==, 1);
        CHECK_STR(sonde_profile_type(profile, 0).type, "alloc_objects");
        answer.objects = (double)sonde_profile_total(profile, 0);
        answer.duration_ns = sonde_profile_info(profile)->duration_ns;
    }
    collect_finish(&collected);
    return answer;
}

static double poll_objects(struct stage *stage, const char *key) {
    struct answer answer = ask(stage, key, false, EVERY);
    CHECK_INT(answer.err, ==, SONDE_OK);
    return answer.objects;
}

TEST(a_poll_has_what_was_allocated_since_the_last_one) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    struct answer first = ask(&stage, "a", false, EVERY);
    CHECK_INT(first.err, ==, SONDE_OK);
    CHECK_NEAR(first.objects, 0, 0.1);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    struct answer second = ask(&stage, "a", false, EVERY);
    CHECK_NEAR(second.objects, OBJECTS, 200);
    CHECK(second.duration_ns > 0);
    CHECK_NEAR(poll_objects(&stage, "a"), 0, 100);
    stage_finish(&stage);
}

TEST(each_key_has_its_own_count) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    CHECK_NEAR(poll_objects(&stage, "a"), 0, 0.1);
    stage_tell(&stage, 's');
    CHECK_NEAR(poll_objects(&stage, "b"), 0, 0.1);
    CHECK_NEAR(poll_objects(&stage, "a"), OBJECTS, 200);
    stage_tell(&stage, 'f');
    stage_tell(&stage, 's');
    CHECK_NEAR(poll_objects(&stage, "b"), OBJECTS, 200);
    stage_finish(&stage);
}

TEST(a_total_grows_and_has_no_duration) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    CHECK_NEAR(ask(&stage, "a", true, EVERY).objects, 0, 0.1);
    for (int round = 1; round <= 3; round++) {
        stage_tell(&stage, 's');
        stage_tell(&stage, 'f');
        struct answer answer = ask(&stage, "a", true, EVERY);
        CHECK_INT(answer.err, ==, SONDE_OK);
        CHECK_NEAR(answer.objects, round * OBJECTS, 1000);
        CHECK_INT(answer.duration_ns, ==, 0);
    }
    stage_finish(&stage);
}

TEST(a_ninth_key_and_a_long_one_are_refused) {
    struct stage stage;
    char key[ENGINE_ALLOCS_POLL_KEY + 2];
    stage_init(&stage, NULL, plain);
    for (unsigned i = 0; i < ENGINE_ALLOCS_POLLS; i++) {
        snprintf(key, sizeof key, "%u", i);
        CHECK_NEAR(poll_objects(&stage, key), 0, 0.1);
    }
    struct answer ninth = ask(&stage, "ninth", false, EVERY);
    CHECK_INT(ninth.err, ==, SONDE_TOO_MANY_CAPTURES);
    CHECK(strstr(ninth.diag.text, "the limit is 8"));
    CHECK_INT(ask(&stage, "0", false, EVERY).err, ==, SONDE_OK);
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = 0;
    CHECK_INT(ask(&stage, key, false, EVERY).err, ==, SONDE_INVALID_ARGUMENT);
    /* A lease of ten minutes is too long for every allocation. */
    CHECK_INT(ask(&stage, "0", false, 0).err, ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(ask(&stage, "new", false, 0).err, !=, SONDE_OK);
    stage_finish(&stage);
}

TEST(a_key_that_is_not_used_is_forgotten) {
    struct stage stage;
    bool was_forgotten = false;
    stage_init(&stage, NULL, plain);
    for (int attempt = 0; attempt < 200 && !was_forgotten; attempt++) {
        CHECK_INT(ask(&stage, "a", false, 1).err, ==, SONDE_OK);
        usleep(20000);
        stage_tell(&stage, 's');
        stage_tell(&stage, 'f');
        was_forgotten = ask(&stage, "a", false, 1).objects < 1;
    }
    CHECK(was_forgotten);
    stage_finish(&stage);
}

TEST(polls_end_with_their_target_and_with_the_engine) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    CHECK_NEAR(poll_objects(&stage, "a"), 0, 0.1);
    stage_restart_engine(&stage);
    stage_tell(&stage, 's');
    CHECK_NEAR(poll_objects(&stage, "a"), 0, 0.1);
    stage_finish(&stage);
}
