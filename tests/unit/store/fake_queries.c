/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake store's queries: every one walks all windows. */
#include "tests/unit/store/fake_store_parts.h"

#include "api/profile/event.h"
#include "service/store/selector/selector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fake_label(const struct store_window *window, const char *name, const char *thread) {
    static _Thread_local char pid[16];
    snprintf(pid, sizeof pid, "%u", window->pid);
    const struct {
        const char *name, *value;
    } own[] = {
        {"service", window->service},   {"host", window->host}, {"event", window->event},
        {"instance", window->instance}, {"pid", pid},           {"thread", thread ? thread : ""}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(name, own[i].name) == 0)
            return own[i].value;
    for (uint32_t i = 0; i < window->label_count; i++)
        if (strcmp(name, window->labels[i].key) == 0)
            return window->labels[i].value;
    return "";
}

struct row_place {
    const struct store_window *window;
    const char *thread;
};

static const char *value_of(void *context, const char *name) {
    const struct row_place *place = context;
    return fake_label(place->window, name, place->thread);
}

static const char *event_of(const struct store_query *query) {
    return query->event && query->event[0] ? query->event : "on-cpu";
}

static bool is_in_range(const struct store_window *window, const struct store_query *query) {
    return window->begin_unix_s >= query->from_unix_s &&
           window->begin_unix_s < query->until_unix_s &&
           strcmp(window->event, event_of(query)) == 0 &&
           (!query->service || !query->service[0] || strcmp(window->service, query->service) == 0);
}

static bool is_newest(const struct fake_store *fake, const struct store_window *window,
                      const struct store_query *query) {
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *other = &fake->windows[i];
        if (is_in_range(other, query) && strcmp(other->instance, window->instance) == 0 &&
            other->begin_unix_s > window->begin_unix_s)
            return false;
    }
    return true;
}

bool fake_matches(const struct fake_store *fake, const struct store_window *window,
                  const struct store_query *query, const char *thread) {
    struct row_place place = {window, thread};
    if (!is_in_range(window, query))
        return false;
    if (sonde_event_is_state(window->event) && !is_newest(fake, window, query))
        return false;
    if (!thread && query->selector && selector_names(query->selector, "thread")) {
        for (uint32_t i = 0; i < window->thread_count; i++)
            if (fake_matches(fake, window, query, window->threads[i]))
                return true;
        return false;
    }
    return selector_matches(query->selector, value_of, &place);
}

static uint32_t text_index(const char ***texts, size_t *count, struct sonde_arena *arena,
                           const char *text, size_t capacity) {
    size_t i = 0;
    if (!*texts)
        *texts = fake_alloc(arena, capacity * sizeof **texts);
    while (i < *count && strcmp((*texts)[i], text) != 0)
        i++;
    if (i == *count)
        (*texts)[(*count)++] = fake_dup(arena, text);
    return (uint32_t)i;
}

static int64_t weighted(const struct store_window *window, uint32_t row) {
    double value = (double)window->value[row] * window->weight;
    return (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
}

static size_t count_rows(const struct fake_store *fake) {
    size_t count = 0;
    for (size_t i = 0; i < fake->window_count; i++)
        count += fake->windows[i].row_count;
    return count;
}

static void add_row(struct store_merge *merge, struct store_row row) {
    merge->rows_read++;
    for (size_t i = 0; i < merge->row_count; i++) {
        struct store_row *old = &merge->rows[i];
        if (old->stack == row.stack && old->service == row.service && old->thread == row.thread) {
            old->value += row.value;
            return;
        }
    }
    merge->rows[merge->row_count++] = row;
}

/* Seconds that any matching window covers, one after the other. */
static int64_t union_s(const struct fake_store *fake, const struct store_query *query) {
    int64_t seconds = 0, last = -1;
    for (size_t done = 0; done < fake->window_count; done++) {
        const struct store_window *next = NULL; /* the earliest one that reaches beyond last */
        for (size_t i = 0; i < fake->window_count; i++) {
            const struct store_window *window = &fake->windows[i];
            if (fake_matches(fake, window, query, NULL) &&
                window->begin_unix_s + window->length_s > last &&
                (!next || window->begin_unix_s < next->begin_unix_s))
                next = window;
        }
        if (!next)
            break;
        int64_t end = next->begin_unix_s + next->length_s;
        seconds += end - (next->begin_unix_s > last ? next->begin_unix_s : last);
        last = end;
    }
    return seconds;
}

/* Windows from a process's first one to its last one, if there were no gaps. */
static uint64_t expected_of(const struct fake_store *fake, const struct store_query *query,
                            const struct store_window *first) {
    int64_t begin = first->begin_unix_s, end = begin + first->length_s;
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *window = &fake->windows[i];
        if (strcmp(window->instance, first->instance) != 0 ||
            !fake_matches(fake, window, query, NULL))
            continue;
        if (window < first)
            return 0; /* counted with the earlier one */
        begin = window->begin_unix_s < begin ? window->begin_unix_s : begin;
        end = window->begin_unix_s + window->length_s > end
                  ? window->begin_unix_s + window->length_s
                  : end;
    }
    return (uint64_t)(end - begin) / first->length_s;
}

static void add_window(struct fake_store *fake, const struct store_query *query,
                       const struct store_window *window, struct sonde_arena *arena,
                       struct store_merge *merge) {
    merge->windows++;
    merge->windows_expected += expected_of(fake, query, window);
    merge->samples += window->samples;
    merge->dropped += window->dropped;
    merge->covered_ns += (int64_t)window->length_s * 1000000000;
    merge->period_ns = window->period_ns;
    int64_t end = window->begin_unix_s + window->length_s;
    if (merge->windows == 1 || window->begin_unix_s < merge->first_unix_s)
        merge->first_unix_s = window->begin_unix_s;
    merge->last_unix_s = end > merge->last_unix_s ? end : merge->last_unix_s;
    for (uint32_t i = 0; i < window->row_count; i++) {
        const char *thread = window->threads[window->thread[i]];
        if (!fake_matches(fake, window, query, thread))
            continue;
        size_t rows = count_rows(fake);
        add_row(merge, (struct store_row){
                           .stack = window->stack[i],
                           .service = text_index(&merge->services, &merge->service_count, arena,
                                                 window->service, fake->window_count),
                           .thread = text_index(&merge->threads, &merge->thread_count, arena,
                                                thread, rows),
                           .value = weighted(window, i)});
    }
}

sonde_err fake_merge(struct fake_store *fake, const struct store_query *query,
                     struct sonde_arena *arena, struct store_merge *merge) {
    *merge = (struct store_merge){.statement = "every window, one after the other"};
    merge->rows = fake_alloc(arena, count_rows(fake) * sizeof *merge->rows);
    for (size_t i = 0; i < fake->window_count; i++)
        if (fake_matches(fake, &fake->windows[i], query, NULL))
            add_window(fake, query, &fake->windows[i], arena, merge);
    merge->wall_ns = union_s(fake, query) * 1000000000;
    return SONDE_OK;
}

static struct store_series *find_series(struct fake_store *fake,
                                        const struct store_series_query *query,
                                        const struct store_window *window, const char *thread,
                                        struct sonde_arena *arena,
                                        struct store_series_result *result) {
    const char **values = fake_alloc(arena, query->group_count * sizeof *values);
    for (size_t i = 0; i < query->group_count; i++)
        values[i] = fake_dup(arena, fake_label(window, query->group_by[i], thread));
    for (size_t s = 0; s < result->series_count; s++) {
        size_t i = 0;
        while (i < query->group_count && strcmp(result->series[s].values[i], values[i]) == 0)
            i++;
        if (i == query->group_count)
            return &result->series[s];
    }
    struct store_series *series = &result->series[result->series_count++];
    series->values = values;
    series->points = fake_alloc(arena, fake->window_count * sizeof *series->points);
    return series;
}

static int by_time(const void *a, const void *b) {
    const struct store_point *left = a, *right = b;
    return (left->time_unix_s > right->time_unix_s) - (left->time_unix_s < right->time_unix_s);
}

static int by_sum(const void *a, const void *b) {
    const struct store_series *left = a, *right = b;
    return (left->sum < right->sum) - (left->sum > right->sum);
}

static void add_point(struct store_series *series, int64_t time, int64_t value) {
    size_t i = 0;
    while (i < series->point_count && series->points[i].time_unix_s != time)
        i++;
    series->point_count += i == series->point_count;
    series->points[i].time_unix_s = time;
    series->points[i].value += value;
    series->sum += value;
}

static bool counts(const struct store_series_query *query, uint64_t stack) {
    for (size_t i = 0; i < query->stack_count; i++)
        if (query->stacks[i] == stack)
            return true;
    return !query->stacks;
}

sonde_err fake_series(struct fake_store *fake, const struct store_series_query *query,
                      struct sonde_arena *arena, struct store_series_result *result) {
    *result = (struct store_series_result){0};
    result->series = fake_alloc(arena, count_rows(fake) * sizeof *result->series);
    for (size_t w = 0; w < fake->window_count; w++) {
        const struct store_window *window = &fake->windows[w];
        int64_t time = window->begin_unix_s - window->begin_unix_s % query->step_s;
        for (uint32_t i = 0; i < window->row_count; i++) {
            const char *thread = window->threads[window->thread[i]];
            if (fake_matches(fake, window, &query->query, thread))
                add_point(find_series(fake, query, window, thread, arena, result), time,
                          counts(query, window->stack[i]) ? weighted(window, i) : 0);
        }
    }
    qsort(result->series, result->series_count, sizeof *result->series, by_sum);
    if (result->series_count > query->limit) {
        result->omitted = result->series_count - query->limit;
        result->series_count = query->limit;
    }
    for (size_t s = 0; s < result->series_count; s++)
        qsort(result->series[s].points, result->series[s].point_count,
              sizeof *result->series[s].points, by_time);
    sonde_err err = fake_merge(fake, &query->query, arena, &result->completeness);
    result->completeness.row_count = 0;
    return err;
}

static const char *host_value(void *context, const char *name) {
    return strcmp(name, "host") == 0 ? context : "";
}

static void add_total(struct store_total_row *rows, size_t *count,
                      const struct store_total *total) {
    size_t i = 0;
    while (i < *count && (strcmp(rows[i].process, total->process) != 0 ||
                          strcmp(rows[i].thread, total->thread) != 0))
        i++;
    if (i == *count)
        rows[(*count)++] =
            (struct store_total_row){.process = total->process, .thread = total->thread};
    rows[i].cpu_ns += total->cpu_ns;
}

sonde_err fake_totals(struct fake_store *fake, const struct store_query *query,
                      struct sonde_arena *arena, struct store_total_row **rows, size_t *count,
                      struct store_merge *merge, struct sonde_diag *diag) {
    const char *host = NULL;
    *merge = (struct store_merge){.statement = ""};
    *rows = fake_alloc(arena, fake->total_count * sizeof **rows);
    *count = 0;
    for (size_t i = 0; i < fake->total_count; i++) {
        const struct store_total *total = &fake->totals[i];
        if (total->begin_unix_s < query->from_unix_s ||
            total->begin_unix_s >= query->until_unix_s ||
            !selector_matches(query->selector, host_value, (void *)total->host))
            continue;
        if (host && strcmp(host, total->host) != 0)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "several hosts match: the selector must name one");
        host = total->host;
        merge->rows_read++;
        add_total(*rows, count, total);
    }
    return SONDE_OK;
}

static int by_begin(const void *a, const void *b) {
    const struct store_span *left = a, *right = b;
    return (left->begin_unix_s > right->begin_unix_s) - (left->begin_unix_s < right->begin_unix_s);
}

/* Sorts the spans and joins those without a pause between them. */
static size_t join_spans(struct store_span *spans, size_t count) {
    size_t joined = 0;
    qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 0; i < count; i++) {
        struct store_span *last = joined ? &spans[joined - 1] : NULL;
        if (!last || spans[i].begin_unix_s >= last->end_unix_s + STORE_HOST_PAUSE_S)
            spans[joined++] = spans[i];
        else if (spans[i].end_unix_s > last->end_unix_s)
            last->end_unix_s = spans[i].end_unix_s;
    }
    return joined;
}

sonde_err fake_hosts(struct fake_store *fake, const struct store_query *query,
                     struct sonde_arena *arena, struct store_host **hosts, size_t *count) {
    const char **names = NULL;
    *hosts = fake_alloc(arena, fake->total_count * sizeof **hosts);
    *count = 0;
    for (size_t i = 0; i < fake->total_count; i++) {
        const struct store_total *total = &fake->totals[i];
        if (total->begin_unix_s < query->from_unix_s || total->begin_unix_s >= query->until_unix_s)
            continue;
        struct store_host *host =
            &(*hosts)[text_index(&names, count, arena, total->host, fake->total_count)];
        struct store_span *spans = (struct store_span *)host->spans;
        if (!spans)
            spans = fake_alloc(arena, fake->total_count * sizeof *spans);
        spans[host->span_count++] =
            (struct store_span){total->begin_unix_s, total->begin_unix_s + total->length_s};
        host->spans = spans;
        host->name = total->host;
    }
    for (size_t i = 0; i < *count; i++)
        (*hosts)[i].span_count =
            join_spans((struct store_span *)(*hosts)[i].spans, (*hosts)[i].span_count);
    return SONDE_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void describe_service(struct fake_store *fake, const struct store_query *query,
                             struct sonde_arena *arena, struct store_service *service) {
    const char **events = NULL, **hosts = NULL, **processes = NULL;
    size_t event_count = 0, host_count = 0, process_count = 0, room = fake->window_count;
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *window = &fake->windows[i];
        struct store_query any = *query;
        any.event = window->event;
        if (strcmp(window->service, service->name) != 0 || !fake_matches(fake, window, &any, NULL))
            continue;
        text_index(&events, &event_count, arena, window->event, room);
        text_index(&hosts, &host_count, arena, window->host, room);
        text_index(&processes, &process_count, arena, window->instance, room);
        if (!service->first_unix_s || window->begin_unix_s < service->first_unix_s)
            service->first_unix_s = window->begin_unix_s;
        if (window->begin_unix_s + window->length_s > service->last_unix_s)
            service->last_unix_s = window->begin_unix_s + window->length_s;
        for (uint32_t k = 0; k < window->row_count && !strcmp(window->event, "on-cpu"); k++)
            service->on_cpu_ns += weighted(window, k);
    }
    service->events = events;
    service->event_count = event_count;
    service->hosts = (uint32_t)host_count;
    service->processes = (uint32_t)process_count;
}

sonde_err fake_services(struct fake_store *fake, const struct store_query *query,
                        struct sonde_arena *arena, struct store_service **services, size_t *count) {
    const char **names = NULL;
    *count = 0;
    for (size_t i = 0; i < fake->window_count; i++) {
        struct store_query any = *query;
        any.event = fake->windows[i].event;
        if (fake_matches(fake, &fake->windows[i], &any, NULL))
            text_index(&names, count, arena, fake->windows[i].service, fake->window_count);
    }
    *services = fake_alloc(arena, *count * sizeof **services);
    if (*count)
        qsort(names, *count, sizeof *names, by_text);
    for (size_t i = 0; i < *count; i++) {
        (*services)[i].name = names[i];
        describe_service(fake, query, arena, &(*services)[i]);
    }
    return SONDE_OK;
}

sonde_err fake_labels(struct fake_store *fake, const struct store_query *query, const char *name,
                      size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                      bool *is_cut) {
    static const char *const own[] = {"event", "host", "instance", "pid", "service", "thread"};
    size_t room = 8;
    for (size_t i = 0; i < fake->window_count; i++)
        room += fake->windows[i].label_count + fake->windows[i].thread_count + 1;
    *texts = fake_alloc(arena, room * sizeof **texts);
    *count = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0] && !name; i++)
        text_index(texts, count, arena, own[i], room);
    for (size_t i = 0; i < fake->window_count; i++) {
        const struct store_window *window = &fake->windows[i];
        struct store_query any = *query;
        any.event = window->event;
        if (!fake_matches(fake, window, &any, NULL))
            continue;
        for (uint32_t k = 0; k < window->label_count && !name; k++)
            text_index(texts, count, arena, window->labels[k].key, room);
        for (uint32_t k = 0; k < window->thread_count && name && !strcmp(name, "thread"); k++)
            text_index(texts, count, arena, window->threads[k], room);
        if (name && strcmp(name, "thread") != 0 && fake_label(window, name, NULL)[0])
            text_index(texts, count, arena, fake_label(window, name, NULL), room);
    }
    qsort(*texts, *count, sizeof **texts, by_text);
    *is_cut = *count > limit;
    *count = *is_cut ? limit : *count;
    return SONDE_OK;
}
