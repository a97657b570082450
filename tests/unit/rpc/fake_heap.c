/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's heap. It has no state:
 *   - It refuses an activation by the owner "second". A deactivation that also deletes dumps
 *     reports that profiling was active.
 *   - It lists two dumps. A raw dump is 1,200,000 bytes. A snapshot's profile is main → keep, 3,000
 *     bytes; that of 000001.heap is main → keep, 2,000 bytes, and main → gone, 400 bytes.
 *     000003.heap is from an earlier epoch. Other dumps are not found.
 *   - Two processes that have ended left a dump, neither of them named "other". For pid 1 it
 *     answers that the service has no data directory. */
#include "service/engine/heap/heap.h"
#include "tests/unit/rpc/fake_engine.h"
#include "tests/unit/rpc/fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RAW_BYTES 1200000

struct heap_work {
    struct engine_work work;
    struct engine_heap_request request;
    char owner[65];
    bool raw;
    char name[ENGINE_HEAP_NAME_BYTES];
    engine_on_heap *on_answer;
    engine_on_heap_result *on_result;
    void *context;
};

static void answer(struct engine_work *base) {
    struct heap_work *work = (struct heap_work *)base;
    const struct engine_heap_dump dumps[] = {{"000002.heap", 2000, 20, 1},
                                             {"000001.heap", 1000, 10, 1}};
    struct engine_heap_state state = {.backend = ENGINE_HEAP_JEMALLOC,
                                      .available = true,
                                      .active = work->request.verb == ENGINE_HEAP_ACTIVATE,
                                      .was_active = work->request.delete_dumps,
                                      .gdump = work->request.verb == ENGINE_HEAP_GDUMP_ON,
                                      .note = "a note\xff",
                                      .interval_s = work->request.interval_s,
                                      .sample_bytes = 524288,
                                      .epoch = 7,
                                      .dumps = 2,
                                      .dump_bytes = 30};
    struct sonde_diag diag = {0};
    memcpy(state.owner, work->owner, sizeof state.owner);
    if (strcmp(work->owner, "second") == 0)
        work->on_answer(work->context,
                        sonde_fail(&diag, SONDE_SESSION_BUSY, "switched on by first"), &diag, NULL,
                        NULL, 0);
    else
        work->on_answer(work->context, SONDE_OK, NULL, &state, dumps, 2);
    free(work);
}

static sonde_err submit(struct engine *engine, const struct engine_selector *selector,
                        struct heap_work *work, struct sonde_diag *diag) {
    struct engine_target target;
    sonde_err err = engine_find(engine, selector, &target, diag);
    if (!err && !engine_submit(engine, &work->work))
        err = SONDE_UNAVAILABLE;
    if (err)
        free(work);
    return err;
}

sonde_err engine_heap(struct engine *engine, const struct engine_heap_request *request,
                      engine_on_heap *on_answer, void *context, struct sonde_diag *diag) {
    struct heap_work *work = calloc(1, sizeof *work);
    work->work.run = answer;
    work->request = *request;
    snprintf(work->owner, sizeof work->owner, "%s", request->owner ? request->owner : "");
    work->on_answer = on_answer;
    work->context = context;
    return submit(engine, &request->target, work, diag);
}

struct left_work {
    struct engine_work work;
    engine_on_ended_dumps *on_answer;
    void *context;
    bool is_other;
};

static void list_left(struct engine_work *base) {
    static const struct engine_ended_dump left[] = {
        {.process = "crashed",
         .uuid = "00112233445566778899aabbccddeeff",
         .pid = 4711,
         .dump = {"000002.heap", 2000, 20, 1}},
        {.uuid = "ff", .pid = 4712, .dump = {"000001.heap", 1000, 10, 1}},
    };
    struct left_work *work = (struct left_work *)base;
    work->on_answer(work->context, SONDE_OK, NULL, left, work->is_other ? 0 : 2);
    free(work);
}

sonde_err engine_heap_list_ended(struct engine *engine, const struct engine_selector *selector,
                                 engine_on_ended_dumps *on_answer, void *context,
                                 struct sonde_diag *diag) {
    if (selector->pid == 1)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "no data directory");
    struct left_work *work = calloc(1, sizeof *work);
    work->work.run = list_left;
    work->on_answer = on_answer;
    work->context = context;
    work->is_other = strcmp(selector->name, "other") == 0;
    if (engine_submit(engine, &work->work))
        return SONDE_OK;
    free(work);
    return SONDE_UNAVAILABLE;
}

static void add(struct sonde_profile *profile, const char *leaf, int64_t objects, int64_t bytes) {
    uint32_t locations[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct sonde_function function = {0};
        struct sonde_line line = {0};
        const char *name = i == 0 ? leaf : "main";
        struct sonde_location location = {
            .address = i == 0 ? (uint64_t)leaf[0] << 8 : 1, .line_count = 1, .lines = &line};
        (void)!sonde_profile_string(profile, name, strlen(name), &function.name);
        (void)!sonde_profile_add_function(profile, &function, &line.function);
        (void)!sonde_profile_add_location(profile, &location, &locations[i]);
    }
    const int64_t values[] = {objects, bytes};
    struct sonde_sample sample = {.locations = locations, .location_count = 2, .values = values};
    (void)!sonde_profile_add_sample(profile, &sample);
}

static struct sonde_profile *make_profile(bool is_old) {
    static const struct sonde_value_type types[] = {{"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    add(profile, "keep", is_old ? 2 : 3, is_old ? 2000 : 3000);
    if (is_old)
        add(profile, "gone", 1, 400);
    sonde_profile_set_info(profile, &(struct sonde_profile_info){
                                        .period_type = {"space", "bytes"},
                                        .period = 524288,
                                        .default_type = 1,
                                        .is_unbiased = true,
                                    });
    return profile;
}

static void give(struct engine_work *base) {
    struct heap_work *work = (struct heap_work *)base;
    bool is_first = strcmp(work->name, "000001.heap") == 0;
    bool is_third = strcmp(work->name, "000003.heap") == 0;
    struct engine_heap_result result = {.unix_ns = 1, .epoch = is_third ? 6 : 7};
    struct sonde_diag diag = {0};
    if (work->name[0] && !is_first && !is_third) {
        work->on_result(work->context, sonde_fail(&diag, SONDE_NOT_FOUND, "not found"), &diag,
                        NULL);
    } else {
        if (work->raw)
            memset(sonde_buf_extend(&result.text, RAW_BYTES), 'h', RAW_BYTES);
        else
            result.profile = make_profile(work->name[0] != 0);
        work->on_result(work->context, SONDE_OK, NULL, &result);
    }
    free(work);
}

sonde_err engine_heap_get(struct engine *engine, const struct engine_heap_query *query,
                          engine_on_heap_result *on_result, void *context,
                          struct sonde_diag *diag) {
    struct heap_work *work = calloc(1, sizeof *work);
    work->work.run = give;
    work->raw = query->raw;
    snprintf(work->name, sizeof work->name, "%s", query->name ? query->name : "");
    work->on_result = on_result;
    work->context = context;
    return submit(engine, &query->target, work, diag);
}
