/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/collect.h"

#include "tests/unit/check.h"
#include "tests/unit/engine/fake_guest.h"
#include "tests/unit/temporary.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void enter(struct collected *collected) {
    pthread_mutex_lock(&collected->mutex);
    collected->overlaps += collected->is_inside || collected->end_count > 0;
    collected->is_inside = true;
    pthread_mutex_unlock(&collected->mutex);
    usleep(100); /* long enough for a second event to overlap, if it could */
    pthread_mutex_lock(&collected->mutex);
}

static void leave(struct collected *collected) {
    collected->is_inside = false;
    pthread_cond_broadcast(&collected->changed);
    pthread_mutex_unlock(&collected->mutex);
}

static void on_progress(void *context, const struct engine_progress *progress) {
    struct collected *collected = context;
    enter(collected);
    collected->progress_count++;
    collected->progress = *progress;
    snprintf(collected->hottest, sizeof collected->hottest, "%s", progress->hottest);
    leave(collected);
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    struct collected *collected = context;
    enter(collected);
    snprintf(collected->clock, sizeof collected->clock, "%s", metadata->clock);
    snprintf(collected->clock_note, sizeof collected->clock_note, "%s", metadata->clock_note);
    if (collected->profile_count < COLLECT_MAX) {
        collected->metadata[collected->profile_count] = *metadata;
        collected->profiles[collected->profile_count++] = profile;
    } else {
        sonde_profile_destroy(profile);
    }
    leave(collected);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct collected *collected = context;
    enter(collected);
    collected->err = err;
    if (diag)
        collected->diag = *diag;
    collected->end_count++;
    leave(collected);
}

const struct engine_capture_events collect_events = {
    .on_progress = on_progress, .on_profile = on_profile, .on_end = on_end};

void collect_init(struct collected *collected) {
    memset(collected, 0, sizeof *collected);
    pthread_mutex_init(&collected->mutex, NULL);
    pthread_cond_init(&collected->changed, NULL);
}

static void wait_for(struct collected *collected, const uint32_t *counter, uint32_t wanted) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&collected->mutex);
    int late = 0;
    while (*counter < wanted && !late)
        late = pthread_cond_timedwait(&collected->changed, &collected->mutex, &until);
    uint32_t overlaps = collected->overlaps;
    pthread_mutex_unlock(&collected->mutex);
    if (late)
        check_fail(__FILE__, __LINE__, "no event came in 30 s");
    CHECK_INT(overlaps, ==, 0);
}

void collect_wait_end(struct collected *collected) {
    wait_for(collected, &collected->end_count, 1);
}

bool collect_has_ended(struct collected *collected) {
    pthread_mutex_lock(&collected->mutex);
    bool has_ended = collected->end_count > 0;
    pthread_mutex_unlock(&collected->mutex);
    return has_ended;
}

void collect_wait_profiles(struct collected *collected, uint32_t count) {
    wait_for(collected, &collected->profile_count, count);
}

void collect_wait_progress(struct collected *collected, uint32_t count) {
    wait_for(collected, &collected->progress_count, count);
}

const char *collect_hottest(struct collected *collected) {
    static char hottest[sizeof collected->hottest];
    pthread_mutex_lock(&collected->mutex);
    memcpy(hottest, collected->hottest, sizeof hottest);
    pthread_mutex_unlock(&collected->mutex);
    return hottest;
}

void collect_finish(struct collected *collected) {
    for (uint32_t i = 0; i < collected->profile_count; i++)
        sonde_profile_destroy(collected->profiles[i]);
    pthread_mutex_destroy(&collected->mutex);
    pthread_cond_destroy(&collected->changed);
}

static bool has_function(const struct sonde_profile *profile, const struct sonde_sample *sample,
                         const char *function) {
    for (uint32_t i = 0; i < sample->location_count; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample->locations[i]);
        for (uint32_t k = 0; k < location->line_count; k++) {
            const struct sonde_function *known =
                sonde_profile_function(profile, location->lines[k].function);
            if (strcmp(sonde_profile_text(profile, known->name), function) == 0)
                return true;
        }
    }
    return false;
}

int64_t collect_sum(const struct sonde_profile *profile, const char *function) {
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (!function || has_function(profile, &sample, function))
            sum += sample.values[0];
    }
    return sum;
}

const char *collect_comment(const struct sonde_profile *profile, const char *start) {
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++) {
        const char *comment = sonde_profile_comment(profile, i);
        if (strncmp(comment, start, strlen(start)) == 0)
            return comment;
    }
    return "";
}

void place_make(struct place *place) {
    CHECK(mkdtemp(temporary_template(place->dir, sizeof place->dir)) != NULL);
    snprintf(place->socket, sizeof place->socket, "%s/run/guest.sock", place->dir);
    snprintf(place->data, sizeof place->data, "%s/data", place->dir);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    return remove(path);
}

void place_remove(struct place *place) {
    nftw(place->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct engine *place_engine(const struct place *place) {
    struct engine_options options = {
        .socket_path = place->socket, .data_dir = place->data, .source = ENGINE_GUEST};
    struct engine *engine = NULL;
    struct sonde_diag diag = {0};
    if (engine_create(&options, &engine, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return engine;
}

void wait_for_state(struct engine *engine, uint32_t sequence) {
    const struct engine_selector anything = {0};
    struct engine_target target;
    for (int i = 0; i < 5000; i++) {
        if (engine_find(engine, &anything, &target, NULL) == SONDE_OK &&
            target.threads == FAKE_THREADS + sequence)
            return;
        usleep(1000);
    }
    check_fail(__FILE__, __LINE__, "the engine did not take the state over");
}
