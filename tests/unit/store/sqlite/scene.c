/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/sqlite/scene.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <string.h>

void scene_open(struct scene *scene) {
    *scene = (struct scene){0};
    temporary_template(scene->directory, sizeof scene->directory);
    CHECK(mkdtemp(scene->directory));
    snprintf(scene->path, sizeof scene->path, "%s/history.db", scene->directory);
    scene_reopen(scene, NULL);
}

void scene_reopen(struct scene *scene, const struct store_limits *limits) {
    struct sonde_diag diag = {0};
    store_close(scene->store);
    sonde_err err = sqlite_store_open(scene->directory, limits, &scene->store, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
}

void scene_close(struct scene *scene) {
    store_close(scene->store);
    sonde_arena_finish(&scene->arena);
}

sonde_err scene_try(struct scene *scene, const struct spec *spec, struct store_put_result *result,
                    struct sonde_diag *diag) {
    static const struct row one = {7, "main", 1000000};
    const struct row *rows = spec->rows ? spec->rows : &one;
    uint32_t count = spec->rows ? spec->row_count : 1;
    const char *threads[64];
    uint64_t *stack = calloc(count + 1, sizeof *stack);
    uint8_t *thread = calloc(count + 1, 1);
    int64_t *value = calloc(count + 1, sizeof *value);
    uint32_t thread_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < thread_count && strcmp(threads[at], rows[i].thread) != 0)
            at++;
        threads[at] = rows[i].thread;
        thread_count += at == thread_count;
        stack[i] = rows[i].stack;
        thread[i] = (uint8_t)at;
        value[i] = rows[i].value;
    }
    struct store_label labels[] = {{"version", spec->version ? spec->version : "1"},
                                   {"env", "test"}};
    struct store_window window = {
        .source = 1,
        .epoch = 1,
        .seq = spec->seq,
        .event = spec->event ? spec->event : "on-cpu",
        .service = spec->service ? spec->service : "redis",
        .host = spec->host ? spec->host : "a",
        .instance = "00112233445566778899aabbccddeeff",
        .pid = spec->pid ? spec->pid : 100,
        .start_unix_ns = 5,
        .begin_unix_s = spec->begin,
        .length_s = 10,
        .period_ns = 1000000,
        .weight = spec->weight > 0 ? spec->weight : 1,
        .clock = "perf",
        .samples = count,
        .dropped = 2,
        .cpu_from_ns = spec->cpu_from_ns,
        .cpu_until_ns = spec->cpu_until_ns,
        .labels = labels,
        .label_count = 2,
        .threads = threads,
        .thread_count = thread_count,
        .stack = stack,
        .thread = thread,
        .value = value,
        .row_count = count,
    };
    struct store_batch batch = {.windows = &window, .window_count = 1};
    sonde_err err = store_put(scene->store, &batch, result, diag);
    free(stack);
    free(thread);
    free(value);
    return err;
}

struct store_put_result scene_put(struct scene *scene, const struct spec *spec) {
    struct store_put_result result;
    struct sonde_diag diag = {0};
    sonde_err err = scene_try(scene, spec, &result, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    return result;
}

void scene_fill(struct scene *scene, const char *service, int64_t begin, int count) {
    static const char *const threads[] = {"main", "io", "worker"};
    struct row rows[12];
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < count; i++) {
        for (int row = 0; row < 12; row++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            rows[row] = (struct row){1000 + random % 40, threads[random >> 20 & 1],
                                     (int64_t)(1 + (random >> 30) % 3) * 1000000};
        }
        char version[4] = {(char)('1' + i % 3)};
        scene_put(scene, &(struct spec){.service = service,
                                        .version = version,
                                        .pid = 100 + (uint32_t)(i % 3),
                                        .seq = (uint64_t)(begin + 10 * i) * 8 + service[0] % 8,
                                        .begin = begin + 10 * i,
                                        .rows = rows,
                                        .row_count = 12});
    }
}

void scene_maintain(struct scene *scene, int64_t now) {
    struct sonde_diag diag = {0};
    sonde_err err = scene->store->ops->maintain(scene->store, now, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
}

struct store_query scene_query(int64_t from, int64_t until) {
    return (struct store_query){.event = "on-cpu", .from_unix_s = from, .until_unix_s = until};
}

struct store_merge scene_merge(struct scene *scene, const struct store_query *query) {
    struct store_merge merge;
    struct sonde_diag diag = {0};
    sonde_err err = scene->store->ops->merge(scene->store, query, &scene->arena, &merge, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    return merge;
}

struct store_merge scene_select(struct scene *scene, int64_t from, int64_t until,
                                const char *text) {
    struct selector *selector = NULL;
    struct store_query query = scene_query(from, until);
    CHECK_INT(selector_parse(text, NULL, NULL, &selector, NULL), ==, SONDE_OK);
    query.selector = selector;
    struct store_merge merge = scene_merge(scene, &query);
    selector_destroy(selector);
    return merge;
}

int64_t scene_value(const struct store_merge *merge, uint64_t stack, const char *thread) {
    int64_t sum = 0;
    for (size_t i = 0; i < merge->row_count; i++) {
        const struct store_row *row = &merge->rows[i];
        if (row->stack == stack && (!thread[0] || !strcmp(merge->threads[row->thread], thread)))
            sum += row->value;
    }
    return sum;
}

int64_t scene_total(const struct store_merge *merge) {
    int64_t sum = 0;
    for (size_t i = 0; i < merge->row_count; i++)
        sum += merge->rows[i].value;
    return sum;
}
