/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/fake_store.h"

#include "tests/unit/store/fake_store_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *fake_grow(void *items, size_t count, size_t item_size) {
    char *grown = realloc(items, (count + 1) * item_size);
    if (!grown)
        abort();
    memset(grown + count * item_size, 0, item_size);
    return grown;
}

void *fake_alloc(struct sonde_arena *arena, size_t size) {
    void *memory = sonde_arena_alloc(arena, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

static void *copy(struct sonde_arena *arena, const void *from, size_t size) {
    void *memory = fake_alloc(arena, size);
    return size ? memcpy(memory, from, size) : memory;
}

const char *fake_dup(struct sonde_arena *arena, const char *text) {
    return copy(arena, text, strlen(text) + 1);
}

/* Takes the lock and the failure that a test has asked for. */
static sonde_err enter(struct store *store, struct sonde_diag *diag) {
    struct fake_store *fake = (struct fake_store *)store;
    pthread_mutex_lock(&fake->lock);
    sonde_err err = fake->fail_next;
    fake->fail_next = SONDE_OK;
    return err ? sonde_fail(diag, err, "the fake store fails") : SONDE_OK;
}

static sonde_err leave(struct store *store, sonde_err err) {
    pthread_mutex_unlock(&((struct fake_store *)store)->lock);
    return err;
}

static void put_window(struct fake_store *fake, const struct store_window *from,
                       struct store_put_result *result) {
    struct sonde_arena *arena = &fake->arena;
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *old = &fake->windows[i];
        if (old->source == from->source && old->epoch == from->epoch && old->seq == from->seq) {
            result->duplicates++;
            return;
        }
    }
    struct store_window window = *from;
    const char **texts[] = {&window.event, &window.service, &window.host, &window.instance,
                            &window.clock};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = fake_dup(arena, *texts[i]);
    struct store_label *labels =
        copy(arena, from->labels, from->label_count * sizeof *from->labels);
    for (uint32_t i = 0; i < from->label_count; i++)
        labels[i] = (struct store_label){fake_dup(arena, from->labels[i].key),
                                         fake_dup(arena, from->labels[i].value)};
    const char **threads = fake_alloc(arena, from->thread_count * sizeof *threads);
    for (uint32_t i = 0; i < from->thread_count; i++)
        threads[i] = fake_dup(arena, from->threads[i]);
    window.labels = labels;
    window.threads = threads;
    window.stack = copy(arena, from->stack, from->row_count * sizeof *from->stack);
    window.thread = copy(arena, from->thread, from->row_count * sizeof *from->thread);
    window.value = copy(arena, from->value, from->row_count * sizeof *from->value);
    fake->windows = fake_grow(fake->windows, fake->window_count, sizeof window);
    fake->windows[fake->window_count++] = window;
    result->stored++;
}

static struct store_stack *find_stack(struct fake_store *fake, const char *service, uint64_t id) {
    for (size_t i = 0; i < fake->stack_count; i++)
        if (fake->stacks[i].id == id && strcmp(fake->stacks[i].service, service) == 0)
            return &fake->stacks[i];
    return NULL;
}

static struct store_frame *find_frame(struct fake_store *fake, uint64_t id) {
    for (size_t i = 0; i < fake->frame_count; i++)
        if (fake->frames[i].id == id)
            return &fake->frames[i];
    return NULL;
}

static void put_stack(struct fake_store *fake, const struct store_stack *from,
                      struct store_put_result *result) {
    const struct store_stack *old = find_stack(fake, from->service, from->id);
    size_t size = from->frame_count * sizeof *from->frames;
    if (old) {
        bool is_equal = old->frame_count == from->frame_count &&
                        (size == 0 || memcmp(old->frames, from->frames, size) == 0);
        result->rejected += !is_equal;
        return;
    }
    fake->stacks = fake_grow(fake->stacks, fake->stack_count, sizeof *from);
    fake->stacks[fake->stack_count++] =
        (struct store_stack){.service = fake_dup(&fake->arena, from->service),
                             .id = from->id,
                             .frames = copy(&fake->arena, from->frames, size),
                             .frame_count = from->frame_count};
}

static void put_frame(struct fake_store *fake, const struct store_frame *from) {
    struct sonde_arena *arena = &fake->arena;
    struct store_frame *frame = find_frame(fake, from->id);
    if (frame && frame->version >= from->version)
        return;
    if (!frame) {
        fake->frames = fake_grow(fake->frames, fake->frame_count, sizeof *from);
        frame = &fake->frames[fake->frame_count++];
    }
    struct store_line *lines = copy(arena, from->lines, from->line_count * sizeof *lines);
    for (uint32_t i = 0; i < from->line_count; i++) {
        lines[i].function = fake_dup(arena, from->lines[i].function);
        lines[i].file = fake_dup(arena, from->lines[i].file);
    }
    *frame = *from;
    frame->build_id = fake_dup(arena, from->build_id);
    frame->module = fake_dup(arena, from->module);
    frame->lines = lines;
}

static void put_total(struct fake_store *fake, const struct store_total *from, size_t old_count) {
    for (size_t i = 0; i < old_count; i++)
        if (fake->totals[i].source == from->source && fake->totals[i].epoch == from->epoch &&
            fake->totals[i].seq == from->seq)
            return;
    fake->totals = fake_grow(fake->totals, fake->total_count, sizeof *from);
    struct store_total *total = &fake->totals[fake->total_count++];
    *total = *from;
    total->host = fake_dup(&fake->arena, from->host);
    total->process = fake_dup(&fake->arena, from->process);
    total->thread = fake_dup(&fake->arena, from->thread);
}

static sonde_err put(struct store *store, const struct store_batch *batch,
                     struct store_put_result *result, struct sonde_diag *diag) {
    struct fake_store *fake = (struct fake_store *)store;
    sonde_err err = enter(store, diag);
    size_t old_totals = fake->total_count;
    for (size_t i = 0; i < batch->window_count && !err; i++)
        put_window(fake, &batch->windows[i], result);
    for (size_t i = 0; i < batch->stack_count && !err; i++)
        put_stack(fake, &batch->stacks[i], result);
    for (size_t i = 0; i < batch->frame_count && !err; i++)
        put_frame(fake, &batch->frames[i]);
    for (size_t i = 0; i < batch->total_count && !err; i++)
        put_total(fake, &batch->totals[i], old_totals);
    return leave(store, err);
}

static sonde_err stacks(struct store *store, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_stack **result, size_t *found, struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    *result = fake_alloc(arena, count * sizeof **result);
    *found = 0;
    for (size_t i = 0; i < count && !err; i++) {
        const struct store_stack *stack = find_stack((struct fake_store *)store, service, ids[i]);
        if (stack)
            (*result)[(*found)++] = *stack;
    }
    return leave(store, err);
}

static sonde_err frames(struct store *store, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *arena,
                        struct store_frame **result, size_t *found, struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    *result = fake_alloc(arena, count * sizeof **result);
    *found = 0;
    for (size_t i = 0; i < count && !err; i++) {
        const struct store_frame *frame = find_frame((struct fake_store *)store, ids[i]);
        if (frame)
            (*result)[(*found)++] = *frame;
    }
    return leave(store, err);
}

static sonde_err unnamed(struct store *store, size_t limit, struct sonde_arena *arena,
                         struct store_frame **result, size_t *found, struct sonde_diag *diag) {
    struct fake_store *fake = (struct fake_store *)store;
    sonde_err err = enter(store, diag);
    *result = fake_alloc(arena, fake->frame_count * sizeof **result);
    *found = 0;
    for (size_t i = fake->frame_count; i > 0 && *found < limit && !err; i--)
        if (fake->frames[i - 1].line_count == 0)
            (*result)[(*found)++] = fake->frames[i - 1];
    return leave(store, err);
}

static sonde_err merge(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_merge *result,
                       struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    if (!err)
        err = store_stop_check(query->stop, diag);
    return leave(store, err ? err : fake_merge((struct fake_store *)store, query, arena, result));
}

static sonde_err series(struct store *store, const struct store_series_query *query,
                        struct sonde_arena *arena, struct store_series_result *result,
                        struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    return leave(store, err ? err : fake_series((struct fake_store *)store, query, arena, result));
}

static sonde_err totals(struct store *store, const struct store_query *query,
                        struct sonde_arena *arena, struct store_total_row **rows, size_t *count,
                        struct store_merge *result, struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    if (!err)
        err = fake_totals((struct fake_store *)store, query, arena, rows, count, result, diag);
    return leave(store, err);
}

static sonde_err hosts(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_host **result, size_t *count,
                       struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    return leave(store,
                 err ? err : fake_hosts((struct fake_store *)store, query, arena, result, count));
}

static sonde_err services(struct store *store, const struct store_query *query,
                          struct sonde_arena *arena, struct store_service **result, size_t *count,
                          struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    return leave(
        store, err ? err : fake_services((struct fake_store *)store, query, arena, result, count));
}

static sonde_err labels(struct store *store, const struct store_query *query, const char *name,
                        size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                        bool *is_cut, struct sonde_diag *diag) {
    sonde_err err = enter(store, diag);
    if (!err)
        err = fake_labels((struct fake_store *)store, query, name, limit, arena, texts, count,
                          is_cut);
    return leave(store, err);
}

/* Whether no earlier window has this host. */
static bool is_new_host(const struct fake_store *fake, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(fake->windows[i].host, fake->windows[index].host) == 0)
            return false;
    return true;
}

static sonde_err info(struct store *store, const struct store_stop *stop, struct store_info *result,
                      struct sonde_diag *diag) {
    const struct fake_store *fake = (struct fake_store *)store;
    sonde_err err = enter(store, diag);
    *result = (struct store_info){.engine = "fake",
                                  .place = "memory",
                                  .windows = fake->window_count,
                                  .stacks = fake->stack_count,
                                  .frames = fake->frame_count};
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *window = &fake->windows[i];
        result->samples += window->samples;
        result->dropped += window->dropped;
        if (i == 0 || window->begin_unix_s < result->first_unix_s)
            result->first_unix_s = window->begin_unix_s;
        if (window->begin_unix_s + window->length_s > result->last_unix_s)
            result->last_unix_s = window->begin_unix_s + window->length_s;
        result->hosts += is_new_host(fake, i);
    }
    return leave(store, err);
}

static sonde_err lease(struct store *store, const struct store_lease_request *wanted,
                       struct sonde_arena *arena, struct store_lease **live, size_t *count,
                       struct sonde_diag *diag) {
    struct fake_store *fake = (struct fake_store *)store;
    struct timespec now;
    sonde_err err = enter(store, diag);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!err)
        err = leases_renew(fake->leases, wanted, now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000,
                           arena, live, count, diag);
    return leave(store, err);
}

static bool is_stored(const struct fake_store *fake, const struct store_change *change) {
    for (size_t i = 0; i < fake->change_count; i++) {
        const struct store_change *other = &fake->changes[i];
        if (other->time_unix_s == change->time_unix_s && other->body.len == change->body.len &&
            strcmp(other->service, change->service) == 0 &&
            memcmp(other->body.data, change->body.data, change->body.len) == 0)
            return true;
    }
    return false;
}

static sonde_err put_change(struct store *store, const struct store_change *change,
                            struct sonde_diag *diag) {
    struct fake_store *fake = (struct fake_store *)store;
    sonde_err err = enter(store, diag);
    if (err || is_stored(fake, change))
        return leave(store, err);
    char *body = fake_alloc(&fake->arena, change->body.len + 1);
    memcpy(body, change->body.data, change->body.len);
    fake->changes = fake_grow(fake->changes, fake->change_count, sizeof *fake->changes);
    fake->changes[fake->change_count++] =
        (struct store_change){.time_unix_s = change->time_unix_s,
                              .service = fake_dup(&fake->arena, change->service),
                              .body = {body, change->body.len}};
    return leave(store, SONDE_OK);
}

static int newest_first(const void *a, const void *b) {
    int64_t left = ((const struct store_change *)a)->time_unix_s;
    int64_t right = ((const struct store_change *)b)->time_unix_s;
    return (left < right) - (left > right);
}

static sonde_err changes(struct store *store, const struct store_change_query *query,
                         struct sonde_arena *arena, struct store_change **result, size_t *count,
                         struct sonde_diag *diag) {
    const struct fake_store *fake = (struct fake_store *)store;
    sonde_err err = enter(store, diag);
    *result = fake_alloc(arena, (fake->change_count + 1) * sizeof **result);
    *count = 0;
    for (size_t i = 0; i < fake->change_count && !err; i++) {
        const struct store_change *change = &fake->changes[i];
        if (change->time_unix_s >= query->from_unix_s &&
            change->time_unix_s < query->until_unix_s &&
            (!*query->service || strcmp(query->service, change->service) == 0))
            (*result)[(*count)++] = *change;
    }
    qsort(*result, *count, sizeof **result, newest_first);
    *count = *count < query->limit ? *count : query->limit;
    return leave(store, err);
}

static sonde_err maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag) {
    return leave(store, enter(store, diag));
}

static void close_store(struct store *store) {
    struct fake_store *fake = (struct fake_store *)store;
    sonde_arena_finish(&fake->arena);
    pthread_mutex_destroy(&fake->lock);
    free(fake->windows);
    free(fake->stacks);
    free(fake->frames);
    free(fake->totals);
    free(fake->changes);
    leases_destroy(fake->leases);
    free(fake);
}

struct store *fake_store_create(void) {
    static const struct store_ops ops = {
        .put = put,
        .merge = merge,
        .stacks = stacks,
        .frames = frames,
        .unnamed = unnamed,
        .series = series,
        .totals = totals,
        .hosts = hosts,
        .services = services,
        .labels = labels,
        .lease = lease,
        .put_change = put_change,
        .changes = changes,
        .info = info,
        .maintain = maintain,
        .close = close_store,
    };
    struct fake_store *fake = fake_grow(NULL, 0, sizeof *fake);
    fake->base.ops = &ops;
    fake->leases = leases_create();
    pthread_mutex_init(&fake->lock, NULL);
    return &fake->base;
}

void fake_store_fail_next(struct store *store, sonde_err code) {
    ((struct fake_store *)store)->fail_next = code;
}

void fake_store_forget_stack(struct store *store, const char *service, uint64_t id) {
    struct fake_store *fake = (struct fake_store *)store;
    struct store_stack *stack = find_stack(fake, service, id);
    if (stack)
        *stack = fake->stacks[--fake->stack_count];
}

void fake_store_forget_frame(struct store *store, uint64_t id) {
    struct fake_store *fake = (struct fake_store *)store;
    struct store_frame *frame = find_frame(fake, id);
    if (frame)
        *frame = fake->frames[--fake->frame_count];
}
