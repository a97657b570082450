/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/rpc/fake_parts.h"

#include "api/profile/timeline.h"
#include "service/symbol/symbol.h"
#include "tests/unit/rpc/fake_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(sonde_err err) {
    if (err)
        abort();
}

static uint32_t text(struct sonde_profile *profile, const char *string) {
    uint32_t id;
    must(sonde_profile_string(profile, string, strlen(string), &id));
    return id;
}

static uint32_t function(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {text(profile, name), text(profile, name),
                                      text(profile, "demo.c"), 0};
    uint32_t id;
    must(sonde_profile_add_function(profile, &function, &id));
    return id;
}

static uint32_t location(struct sonde_profile *profile, uint32_t mapping, uint64_t address,
                         const uint32_t *functions, uint32_t count) {
    struct sonde_line lines[2];
    for (uint32_t i = 0; i < count; i++)
        lines[i] = (struct sonde_line){functions[i], 10 + i};
    struct sonde_location location = {.mapping = mapping,
                                      .address = address,
                                      .line_count = count,
                                      .kind = SONDE_FRAME_APPLICATION,
                                      .lines = lines};
    uint32_t id;
    must(sonde_profile_add_location(profile, &location, &id));
    return id;
}

static uint32_t leaf(struct sonde_profile *profile, uint32_t mapping, uint32_t number,
                     uint32_t name_len) {
    uint32_t functions[2];
    char *name = calloc(1, name_len + 32);
    int len = snprintf(name, 32, "f%u", number);
    memset(name + len, 'x', name_len);
    bool is_inlined = number == 0;
    functions[0] = function(profile, is_inlined ? "inlined" : name);
    functions[1] = function(profile, name);
    uint32_t id = location(profile, mapping, 0x5000 + number, functions, is_inlined ? 2 : 1);
    free(name);
    return id;
}

struct sonde_profile *fake_profile(uint32_t first, uint32_t stacks, uint32_t name_len) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_mapping mapping = {.start = 0x4000,
                                    .limit = 0x4000000,
                                    .filename = text(profile, "/usr/bin/demo"),
                                    .build_id = text(profile, "abcd")};
    uint32_t mapping_id, main_function = function(profile, "main");
    must(sonde_profile_add_mapping(profile, &mapping, &mapping_id));
    uint32_t main_location = location(profile, mapping_id, 0x4100, &main_function, 1);
    struct sonde_label labels[] = {
        {.key = text(profile, "thread"), .str = text(profile, "worker")},
        {.key = text(profile, "tid"), .num = 7},
    };
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t locations[] = {leaf(profile, mapping_id, first + i, name_len), main_location};
        int64_t values[] = {10, 10000000};
        struct sonde_sample sample = {.locations = locations,
                                      .location_count = 2,
                                      .label_count = 2,
                                      .values = values,
                                      .labels = labels};
        must(sonde_profile_add_sample(profile, &sample));
    }
    return profile;
}

void fake_timeline(struct sonde_profile *profile) {
    size_t count = sonde_profile_sample_count(profile);
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    timeline->entries = calloc(count + 1, sizeof *timeline->entries);
    for (; timeline->count < count; timeline->count++)
        timeline->entries[timeline->count] =
            (struct sonde_timeline_entry){(uint32_t)timeline->count, (uint32_t)timeline->count, 10};
    sonde_profile_set_timeline(profile, timeline);
    struct sonde_profile_info info = *sonde_profile_info(profile);
    info.duration_ns = (int64_t)count * SONDE_TIMELINE_BIN_MS * 1000000;
    info.default_type = 1;
    sonde_profile_set_info(profile, &info);
}

struct sonde_profile *fake_allocs(const struct engine_allocs_spec *spec, uint32_t stacks) {
    static const struct sonde_value_type types[] = {{"alloc_objects", "count"},
                                                    {"alloc_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                      .period = (int64_t)spec->sample_bytes,
                                      .default_type = 1,
                                      .is_unbiased = true};
    char comment[40];
    sonde_profile_set_info(profile, &info);
    snprintf(comment, sizeof comment, "probability %g", spec->probability);
    must(sonde_profile_add_comment(profile, comment));
    uint32_t main_function = function(profile, "main");
    uint32_t main_location = location(profile, 0, 0x4100, &main_function, 1);
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t locations[] = {leaf(profile, 0, i, 0), main_location};
        int64_t values[] = {1000, 3000};
        struct sonde_sample sample = {
            .locations = locations, .location_count = 2, .values = values};
        must(sonde_profile_add_sample(profile, &sample));
    }
    return profile;
}

void fake_target(struct engine_target *target, const char *name, pid_t pid) {
    memset(target, 0, sizeof *target);
    snprintf(target->name, sizeof target->name, "%s", name);
    snprintf(target->executable, sizeof target->executable, "%s", name);
    snprintf(target->uuid, sizeof target->uuid, "%032x", (unsigned)pid);
    snprintf(target->clock, sizeof target->clock, "fake");
    snprintf(target->clock_note, sizeof target->clock_note, "no clock at all");
    snprintf(target->guest_version, sizeof target->guest_version, "0");
    target->pid = pid;
    target->start_unix_ns = 1000000000;
    target->attached_unix_ns = 2000000000;
}

static bool fits(const struct engine_target *target, const struct engine_selector *selector) {
    bool name = !selector->name || !*selector->name || strcmp(selector->name, target->name) == 0;
    bool uuid = !selector->uuid || !*selector->uuid || strcmp(selector->uuid, target->uuid) == 0;
    bool owner = !selector->owner || *selector->owner == target->uid;
    bool is_named =
        selector->pid || (selector->name && *selector->name) || (selector->uuid && *selector->uuid);
    if (target->is_unattached && !is_named && !selector->all)
        return false; /* only a guest need not be named */
    return name && uuid && owner && (!selector->pid || selector->pid == target->pid);
}

sonde_err fake_find(const struct engine_target *targets, size_t count,
                    const struct engine_selector *selector, struct engine_target *found,
                    struct sonde_diag *diag) {
    size_t hits = 0;
    for (size_t i = 0; i < count; i++) {
        if (!fits(&targets[i], selector))
            continue;
        *found = targets[i];
        hits++;
    }
    if (hits == 0)
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND, "no target \"%s\" is attached",
                          selector->name ? selector->name : "");
    if (hits > 1 && !selector->all)
        return sonde_fail(diag, SONDE_TARGET_AMBIGUOUS, "%zu targets fit: say which", hits);
    return SONDE_OK;
}

struct engine_target *fake_copy(const struct engine_target *targets, size_t target_count, bool all,
                                size_t *count) {
    struct engine_target *copy = calloc(target_count + 1, sizeof *copy);
    *count = 0;
    for (size_t i = 0; i < target_count; i++)
        if (all || !targets[i].is_unattached)
            copy[(*count)++] = targets[i];
    return copy;
}

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_request last;

void fake_note_request(const struct engine_selector *selector, enum engine_source source) {
    pthread_mutex_lock(&last_lock);
    last = (struct fake_request){source, selector->all, selector->owner != NULL,
                                 selector->owner ? *selector->owner : 0};
    pthread_mutex_unlock(&last_lock);
}

struct fake_request fake_engine_last_request(void) {
    pthread_mutex_lock(&last_lock);
    struct fake_request request = last;
    pthread_mutex_unlock(&last_lock);
    return request;
}

sonde_err fake_session_start(struct fake_session *session, uint32_t lease_ms, const char *owner,
                             int64_t now_ns, struct engine_session_info *info,
                             struct sonde_diag *diag) {
    if (session->is_running)
        return sonde_fail(diag, SONDE_SESSION_BUSY, "a session of %s runs already",
                          session->info.owner);
    session->is_running = session->was_started = true;
    session->info.start_unix_ns = now_ns;
    session->info.lease_until_unix_ns = now_ns + lease_ms * INT64_C(1000000);
    snprintf(session->info.owner, sizeof session->info.owner, "%s", owner);
    *info = session->info;
    return SONDE_OK;
}

static void answer(struct engine_work *work) {
    struct fake_symbols *job = (struct fake_symbols *)(void *)work;
    static const struct symbol_frame frame = {"odd\xff", "_odd", "demo.c", 3, 1};
    struct engine_symbol *symbols = calloc(job->count + 1, sizeof *symbols);
    for (size_t i = 0; i < job->count; i++) {
        bool is_odd = (job->addresses[i] - job->return_addresses) & 1;
        symbols[i] = (struct engine_symbol){
            .frames = is_odd ? &frame : NULL,
            .frame_count = is_odd,
            .quality = is_odd ? SYMBOL_NAMES : SYMBOL_NONE,
            .module = is_odd ? "demo" : "",
            .build_id = is_odd ? "abcd" : "",
            .module_offset = job->addresses[i],
        };
    }
    job->on_answer(job->context, SONDE_OK, NULL, symbols, job->count);
    free(symbols);
    free(job);
}

struct fake_symbols *fake_symbols_create(const uint64_t *addresses, size_t count,
                                         bool return_addresses) {
    struct fake_symbols *job = calloc(1, sizeof *job + count * sizeof *addresses);
    job->work.run = answer;
    job->return_addresses = return_addresses;
    job->count = count;
    if (count)
        memcpy(job->addresses, addresses, count * sizeof *addresses);
    return job;
}
