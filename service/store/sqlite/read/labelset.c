/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/read/labelset.h"

#include "api/base/array.h"
#include "api/profile/event.h"
#include "service/store/sqlite/format/varint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum labelset_match { MATCH_UNKNOWN, MATCH_NO, MATCH_YES };

static int compare_labels(const void *left, const void *right) {
    const struct store_label *a = left, *b = right;
    int order = strcmp(a->key, b->key);
    return order ? order : strcmp(a->value, b->value);
}

static void put_text(struct sonde_buf *buf, const char *text) {
    varint_put_bytes(buf, text, strlen(text));
}

void labelset_encode(const struct store_window *window, struct sonde_buf *buf) {
    struct store_label sorted[STORE_MAX_LABELS];
    for (uint32_t i = 0; i < window->label_count; i++)
        sorted[i] = window->labels[i];
    qsort(sorted, window->label_count, sizeof *sorted, compare_labels);
    put_text(buf, window->host);
    put_text(buf, window->instance);
    varint_put(buf, window->pid);
    varint_put_signed(buf, window->start_unix_ns);
    put_text(buf, window->clock);
    varint_put(buf, window->label_count);
    for (uint32_t i = 0; i < window->label_count; i++) {
        put_text(buf, sorted[i].key);
        put_text(buf, sorted[i].value);
    }
}

static const char *get_text(struct varint_reader *reader, struct sonde_arena *arena) {
    struct sonde_slice slice = varint_get_bytes(reader);
    char *text = sonde_arena_dup(arena, slice.data, slice.len);
    reader->failed = reader->failed || !text;
    return text;
}

/* Returns the length of the part that identifies the process. */
static size_t decode(struct labelset *set, struct sonde_slice body, struct sonde_arena *arena,
                     bool *failed) {
    struct varint_reader reader = varint_reader(body.data, body.len);
    set->host = get_text(&reader, arena);
    set->instance = get_text(&reader, arena);
    snprintf(set->pid, sizeof set->pid, "%u", (unsigned)varint_get_max(&reader, UINT32_MAX));
    set->start_unix_ns = varint_get_signed(&reader);
    size_t identity = body.len - (size_t)(reader.end - reader.at);
    set->clock = get_text(&reader, arena);
    size_t count = varint_get_count(&reader, 2);
    set->labels = sonde_arena_alloc(arena, (count + 1) * sizeof *set->labels);
    reader.failed = reader.failed || !set->labels;
    for (size_t i = 0; i < count && !reader.failed; i++) {
        set->labels[i].key = get_text(&reader, arena);
        set->labels[i].value = get_text(&reader, arena);
        set->label_count++;
    }
    *failed = reader.failed;
    return identity;
}

void labelsets_init(struct labelsets *sets, struct db *db, const struct selector *selector) {
    *sets = (struct labelsets){.db = db,
                               .selector = selector,
                               .names_thread = selector && selector_names(selector, "thread")};
    hash_index_init(&sets->index);
    hash_index_init(&sets->processes);
}

void labelsets_finish(struct labelsets *sets) {
    for (size_t i = 0; i < sets->count; i++)
        free(sets->sets[i]->thread_matches);
    free(sets->sets);
    hash_index_finish(&sets->index);
    hash_index_finish(&sets->processes);
    sonde_arena_finish(&sets->arena);
}

void labelsets_set_stream(struct labelsets *sets, uint32_t stream, const char *service,
                          const char *event) {
    sets->stream = stream;
    sets->service = service;
    sets->event = event;
}

static bool same_process(const struct labelset *a, const struct labelset *b) {
    return strcmp(a->instance, b->instance) == 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->pid, b->pid) == 0 && a->start_unix_ns == b->start_unix_ns;
}

/* The number of the first set of the same process. */
static bool set_process(struct labelsets *sets, struct labelset *set, struct sonde_slice identity) {
    uint32_t hash = hash_index_data(&sets->processes, identity.data, identity.len), at;
    struct hash_probe probe = hash_probe(hash);
    while ((at = hash_index_next(&sets->processes, &probe)) != HASH_INDEX_NONE) {
        if (!same_process(sets->sets[at], set))
            continue;
        set->process = at;
        return true;
    }
    set->process = (uint32_t)sets->count - 1;
    return hash_index_add(&sets->processes, hash, set->process);
}

static struct labelset *read_set(struct labelsets *sets, uint32_t number, uint32_t hash) {
    struct labelset *set = sonde_arena_alloc(&sets->arena, sizeof *set);
    if (!set || !array_room(&sets->sets, &sets->capacity, sets->count, 1) ||
        !hash_index_add(&sets->index, hash, (uint32_t)sets->count)) {
        db_out_of_memory(sets->db);
        return NULL;
    }
    sets->sets[sets->count++] = set;
    set->number = number;
    sqlite3_stmt *row = db_start(sets->db, LABELS_READ, "i", (int64_t)number);
    bool failed = true;
    if (db_row(sets->db, row)) {
        struct sonde_slice body = db_blob(row, 0);
        body.len = decode(set, body, &sets->arena, &failed);
        failed = failed || !set_process(sets, set, body);
    }
    db_stop(row);
    if (failed)
        db_damaged(sets->db);
    return failed ? NULL : set;
}

struct labelset *labelsets_get(struct labelsets *sets, uint32_t number) {
    if (sets->db->failure)
        return NULL;
    uint32_t hash = hash_index_words(&sets->index, number, 0), at;
    struct hash_probe probe = hash_probe(hash);
    while ((at = hash_index_next(&sets->index, &probe)) != HASH_INDEX_NONE)
        if (sets->sets[at]->number == number)
            return sets->sets[at];
    return read_set(sets, number, hash);
}

static const char *type_of(const char *name) {
    const struct sonde_event *event = name ? sonde_event_find(name) : NULL;
    return event ? event->pyroscope_id : "";
}

const char *labelset_value(const struct labelsets *sets, const struct labelset *set,
                           const char *name) {
    const struct {
        const char *name, *value;
    } fixed[] = {{"service", sets->service},  {"event", sets->event}, {"host", set->host},
                 {"instance", set->instance}, {"pid", set->pid},      {"thread", sets->thread}};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(name, fixed[i].name) == 0)
            return fixed[i].value ? fixed[i].value : "";
    if (strcmp(name, SONDE_TYPE_LABEL) == 0)
        return type_of(sets->event);
    for (uint32_t i = 0; i < set->label_count; i++)
        if (strcmp(name, set->labels[i].key) == 0)
            return set->labels[i].value;
    return "";
}

static const char *on_value(void *context, const char *name) {
    struct labelsets *sets = context;
    return labelset_value(sets, sets->current, name);
}

static bool ask(struct labelsets *sets, const struct labelset *set, const char *thread) {
    sets->current = set;
    sets->thread = thread;
    bool matches = selector_matches(sets->selector, on_value, sets);
    sets->thread = NULL;
    return matches;
}

/* Forgets what was found for another stream. */
static void set_stream(struct labelsets *sets, struct labelset *set) {
    if (set->stream == sets->stream)
        return;
    set->stream = sets->stream;
    set->matches = MATCH_UNKNOWN;
    if (set->thread_matches)
        memset(set->thread_matches, MATCH_UNKNOWN, set->thread_capacity);
}

bool labelsets_match(struct labelsets *sets, struct labelset *set) {
    if (!sets->selector)
        return true;
    set_stream(sets, set);
    if (set->matches == MATCH_UNKNOWN)
        set->matches = ask(sets, set, NULL) ? MATCH_YES : MATCH_NO;
    return set->matches == MATCH_YES;
}

bool labelsets_match_thread(struct labelsets *sets, struct labelset *set, uint32_t thread,
                            const char *name) {
    if (!sets->names_thread)
        return labelsets_match(sets, set);
    set_stream(sets, set);
    if (thread >= set->thread_capacity) {
        uint32_t capacity = thread * 2 + 16;
        uint8_t *larger = realloc(set->thread_matches, capacity);
        if (!larger)
            return ask(sets, set, name);
        memset(larger + set->thread_capacity, MATCH_UNKNOWN, capacity - set->thread_capacity);
        set->thread_matches = larger;
        set->thread_capacity = capacity;
    }
    uint8_t *memo = &set->thread_matches[thread];
    if (*memo == MATCH_UNKNOWN)
        *memo = ask(sets, set, name) ? MATCH_YES : MATCH_NO;
    return *memo == MATCH_YES;
}
