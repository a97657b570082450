/* SPDX-License-Identifier: Apache-2.0
 *
 * Services, and the names and values of labels. Finished hours are answered from their tallies. */
#include "api/base/array.h"
#include "service/store/sqlite/engine.h"

#include "api/profile/event.h"
#include "service/store/sqlite/read/scan.h"

#include <stdlib.h>
#include <string.h>

/* Adds the entries of an hour whose label sets match. */
static void add_entries(struct tally *to, struct scan *scan, const struct tally *tally) {
    for (size_t i = 0; i < tally->count; i++) {
        struct labelset *set = labelsets_get(&scan->sets, tally->entries[i].labels);
        if (set && labelsets_match(&scan->sets, set))
            tally_add_entry(to, scan->stream, &tally->entries[i]);
    }
}

struct services {
    struct tally tally;
    struct store_service *services;
    size_t count, capacity, event_capacity;
    size_t first; /* entry of the current service */
    size_t first_of_stream;
    struct text_list hosts;
    uint32_t *seen_hosts, *seen_processes; /* the service (number + 1) that counted them last */
    size_t host_capacity, process_capacity;
    struct sonde_arena *arena;
};

static void services_on_window(void *context, struct scan *scan, const struct chunk_window *window,
                               struct labelset *set) {
    struct services *services = context;
    tally_add(&services->tally, scan->stream, window);
}

static void services_on_hour(void *context, struct scan *scan, const struct tally *tally,
                             const struct chunk *rows) {
    struct services *services = context;
    add_entries(&services->tally, scan, tally);
}

/* Whether this is the first time for the stamp. */
static bool is_first(struct scan *scan, uint32_t **seen, size_t *capacity, uint32_t number,
                     uint32_t stamp) {
    size_t before = *capacity;
    if (!array_room(seen, capacity, number, 1)) {
        db_out_of_memory(scan->db);
        return false;
    }
    if (*capacity > before)
        memset(*seen + before, 0, (*capacity - before) * sizeof **seen);
    bool is_new = (*seen)[number] != stamp;
    (*seen)[number] = stamp;
    return is_new;
}

static void add_event(struct services *services, struct scan *scan, struct store_service *service) {
    /* A service has few events. */
    const char **events =
        sonde_arena_alloc(services->arena, (service->event_count + 1) * sizeof *events);
    char *copy = sonde_arena_dup(services->arena, scan->event, strlen(scan->event));
    if (!events || !copy) {
        db_out_of_memory(scan->db);
        return;
    }
    for (size_t i = 0; i < service->event_count; i++)
        events[i] = service->events[i];
    events[service->event_count++] = copy;
    service->events = events;
}

/* The service of the current stream; streams are in order of their services. */
static struct store_service *current(struct services *services, struct scan *scan) {
    struct store_service *last = services->count ? &services->services[services->count - 1] : NULL;
    if (last && strcmp(last->name, scan->service_name) == 0)
        return last;
    char *name = sonde_arena_dup(services->arena, scan->service_name, strlen(scan->service_name));
    if (!name || !array_room(&services->services, &services->capacity, services->count, 1)) {
        db_out_of_memory(scan->db);
        return NULL;
    }
    last = &services->services[services->count++];
    *last = (struct store_service){.name = name, .first_unix_s = INT64_MAX};
    return last;
}

static void services_on_stream_end(void *context, struct scan *scan) {
    struct services *services = context;
    const struct tally *tally = &services->tally;
    if (services->first_of_stream == tally->count)
        return;
    struct store_service *service = current(services, scan);
    if (!service)
        return;
    add_event(services, scan, service);
    uint32_t stamp = (uint32_t)services->count;
    for (size_t i = services->first_of_stream; i < tally->count && !scan->db->failure; i++) {
        const struct tally_entry *entry = &tally->entries[i];
        struct labelset *set = labelsets_get(&scan->sets, entry->labels);
        if (!set)
            return;
        uint32_t host = text_list_number(&services->hosts, set->host);
        service->hosts +=
            is_first(scan, &services->seen_hosts, &services->host_capacity, host, stamp);
        service->processes += is_first(scan, &services->seen_processes, &services->process_capacity,
                                       set->process, stamp);
        if (entry->first_unix_s < service->first_unix_s)
            service->first_unix_s = entry->first_unix_s;
        if (entry->last_unix_s > service->last_unix_s)
            service->last_unix_s = entry->last_unix_s;
        if (strcmp(scan->event, sonde_events[SONDE_ON_CPU].name) == 0)
            service->on_cpu_ns = chunk_add(service->on_cpu_ns, entry->sum);
    }
    services->first_of_stream = tally->count;
}

static void take_services(struct services *services, struct db *db, struct store_service **result,
                          size_t *count) {
    *result = sonde_arena_alloc(services->arena, (services->count + 1) * sizeof **result);
    if (!*result || services->tally.failed || services->hosts.failed) {
        db_out_of_memory(db);
        return;
    }
    if (services->count)
        memcpy(*result, services->services, services->count * sizeof **result);
    *count = services->count;
}

sonde_err engine_services(struct store *store, const struct store_query *query,
                          struct sonde_arena *arena, struct store_service **result, size_t *count,
                          struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct services services = {.arena = arena};
    struct scan scan;
    *count = 0;
    scan_init(&scan, db, query);
    scan_run(&scan, &(struct scan_visitor){.context = &services,
                                           .any_event = true,
                                           .is_partial = true,
                                           .on_window = services_on_window,
                                           .on_hour = services_on_hour,
                                           .on_stream_end = services_on_stream_end});
    take_services(&services, db, result, count);
    scan_finish(&scan);
    tally_finish(&services.tally);
    text_list_finish(&services.hosts);
    free(services.services);
    free(services.seen_hosts);
    free(services.seen_processes);
    return engine_read_end(engine, db, diag);
}

struct labels {
    const char *name;       /* NULL = the names are asked for */
    bool is_thread;         /* the values of threads are */
    struct tally tally;     /* the current stream's label sets */
    size_t first_of_stream; /* entry */
    struct text_list texts;
};

static void labels_on_window(void *context, struct scan *scan, const struct chunk_window *window,
                             struct labelset *set) {
    struct labels *labels = context;
    tally_add(&labels->tally, scan->stream, window);
    const struct chunk_row *rows = scan->chunk.rows + window->first_row;
    for (uint32_t i = 0; labels->is_thread && i < window->row_count; i++) {
        uint32_t thread = scan->thread_map[rows[i].thread];
        if (scan_row_matches(scan, set, thread))
            text_list_number(&labels->texts, scan->threads.texts[thread]);
    }
}

static void labels_on_hour(void *context, struct scan *scan, const struct tally *tally,
                           const struct chunk *rows) {
    struct labels *labels = context;
    add_entries(&labels->tally, scan, tally);
}

static void labels_on_stream_end(void *context, struct scan *scan) {
    static const char *const fixed[] = {"service", "event", "host", "instance", "pid", "thread"};
    struct labels *labels = context;
    for (; labels->first_of_stream < labels->tally.count; labels->first_of_stream++) {
        struct labelset *set =
            labelsets_get(&scan->sets, labels->tally.entries[labels->first_of_stream].labels);
        if (!set || labels->is_thread)
            continue;
        const char *value = labels->name ? labelset_value(&scan->sets, set, labels->name) : "";
        if (value[0])
            text_list_number(&labels->texts, value);
        for (size_t i = 0; !labels->name && i < sizeof fixed / sizeof fixed[0]; i++)
            text_list_number(&labels->texts, fixed[i]);
        for (uint32_t i = 0; !labels->name && i < set->label_count; i++)
            text_list_number(&labels->texts, set->labels[i].key);
    }
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void take_texts(struct labels *labels, struct db *db, size_t limit,
                       struct sonde_arena *arena, const char ***texts, size_t *count) {
    if (labels->texts.count)
        qsort(labels->texts.texts, labels->texts.count, sizeof(char *), compare_texts);
    *count = labels->texts.count < limit ? labels->texts.count : limit;
    *texts = sonde_arena_alloc(arena, (*count + 1) * sizeof **texts);
    bool failed = !*texts || labels->texts.failed || labels->tally.failed;
    for (size_t i = 0; !failed && i < *count; i++) {
        const char *text = labels->texts.texts[i];
        (*texts)[i] = sonde_arena_dup(arena, text, strlen(text));
        failed = !(*texts)[i];
    }
    if (failed)
        db_out_of_memory(db);
}

sonde_err engine_labels(struct store *store, const struct store_query *query, const char *name,
                        size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                        bool *is_cut, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct labels labels = {.name = name, .is_thread = name && strcmp(name, "thread") == 0};
    struct scan scan;
    scan_init(&scan, db, query);
    scan_run(&scan, &(struct scan_visitor){.context = &labels,
                                           .with_rows = labels.is_thread,
                                           .any_event = true,
                                           .is_partial = true,
                                           .on_window = labels_on_window,
                                           .on_hour = labels.is_thread ? NULL : labels_on_hour,
                                           .on_stream_end = labels_on_stream_end});
    take_texts(&labels, db, limit, arena, texts, count);
    *is_cut = labels.texts.count > limit;
    scan_finish(&scan);
    tally_finish(&labels.tally);
    text_list_finish(&labels.texts);
    return engine_read_end(engine, db, diag);
}
