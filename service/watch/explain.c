/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/explain.h"

#include "service/store/profile.h"
#include "service/watch/attribute.h"

#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

/* ---- Times ---- */

/* The begin of the slot of the ring. */
static int64_t time_of(const struct slots *slots, size_t slot) {
    return (slots->last - (int64_t)(LEVEL_SLOTS - 1 - slot)) * LEVEL_SLOT_S;
}

/* The first slot before that has something, so that pauses count to the time of the change. */
static size_t slot_before(const struct slots *slots, size_t slot) {
    while (slot > 0 && slots->wholes[slot - 1] <= 0)
        slot--;
    return slot > 0 ? slot - 1 : 0;
}

static void set_times(const struct explaining *explaining, struct attribution *times) {
    const struct slots *slots = explaining->slots;
    size_t slot = explaining->result->slot, first = slot > LEVEL_BEFORE ? slot - LEVEL_BEFORE : 0;
    times->before_unix_s = time_of(slots, first);
    times->change_unix_s = time_of(slots, slot);
    times->until_unix_s = (slots->last + 1) * LEVEL_SLOT_S;
}

/* ---- Names ---- */

/* Both sides of the change, as profiles. */
struct sides {
    struct store_profile before, after;
};

static const char *copy(struct sonde_arena *arena, const char *text) {
    const char *copied = sonde_arena_dup(arena, text, strlen(text));
    return copied ? copied : "";
}

static sonde_err read_side(const struct explaining *explaining, int64_t from, int64_t until,
                           struct store_profile *side, struct sonde_diag *diag) {
    const struct store_query query = {.service = explaining->slots->service,
                                      .event = SLOTS_EVENT,
                                      .from_unix_s = from,
                                      .until_unix_s = until,
                                      .stop = explaining->stop};
    return store_profile_query(explaining->store, &query, explaining->arena, EXPLAIN_BYTES, side,
                               diag);
}

static const char *name_of(const struct sonde_profile *profile,
                           const struct sonde_location *location) {
    if (location->line_count == 0)
        return NULL;
    return sonde_profile_text(profile,
                              sonde_profile_function(profile, location->lines[0].function)->name);
}

static const char *file_of(const struct sonde_profile *profile,
                           const struct sonde_location *location) {
    uint32_t file =
        location->mapping ? sonde_profile_mapping(profile, location->mapping)->filename : 0;
    return sonde_profile_text(profile, file);
}

static uint64_t hash_of(const struct sonde_profile *profile,
                        const struct sonde_location *location) {
    const char *name = name_of(profile, location);
    return name ? slots_hash(name) : slots_hash_module(file_of(profile, location));
}

/* "[libfoo.so]" for code without a name. */
static const char *shown_name(struct sonde_arena *arena, const struct sonde_profile *profile,
                              const struct sonde_location *location) {
    const char *name = name_of(profile, location), *file = file_of(profile, location);
    const char *slash = strrchr(file, '/');
    char text[256];
    if (name)
        return copy(arena, name);
    snprintf(text, sizeof text, "[%.250s]", slash ? slash + 1 : file);
    return copy(arena, text);
}

/* The sample of the profile with the largest value whose innermost function it is. */
static bool find_sample(const struct sonde_profile *profile, uint64_t name,
                        struct sonde_sample *found) {
    size_t type = sonde_profile_type_count(profile) - 1;
    int64_t largest = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (sample.location_count == 0 || sample.values[type] <= largest)
            continue;
        if (hash_of(profile, sonde_profile_location(profile, sample.locations[0])) != name)
            continue;
        *found = sample;
        largest = sample.values[type];
    }
    return largest > 0;
}

/* All functions of the stack but the innermost one. */
static bool add_callers(const struct explaining *explaining, const struct sonde_profile *profile,
                        const struct sonde_sample *sample, Sonde__V1__ChangedFunction *function) {
    function->callers =
        sonde_arena_alloc(explaining->arena, EXPLAIN_CALLERS * sizeof *function->callers);
    for (uint32_t i = 0; function->callers && i < sample->location_count; i++) {
        const struct sonde_location *location =
            sonde_profile_location(profile, sample->locations[i]);
        for (uint32_t line = i == 0 ? 1 : 0; line < location->line_count; line++) {
            uint32_t name = sonde_profile_function(profile, location->lines[line].function)->name;
            if (function->n_callers < EXPLAIN_CALLERS)
                function->callers[function->n_callers++] =
                    (char *)copy(explaining->arena, sonde_profile_text(profile, name));
        }
    }
    return function->callers != NULL;
}

/* A function of one side only is named by that side. */
static const char *find_name(const struct explaining *explaining, const struct sides *sides,
                             uint64_t hash, Sonde__V1__ChangedFunction *callers_of) {
    const struct sonde_profile *const profiles[] = {sides->after.profile, sides->before.profile};
    struct sonde_sample sample;
    for (int i = 0; i < 2; i++) {
        if (!find_sample(profiles[i], hash, &sample))
            continue;
        if (callers_of && !add_callers(explaining, profiles[i], &sample, callers_of))
            return "";
        return shown_name(explaining->arena, profiles[i],
                          sonde_profile_location(profiles[i], sample.locations[0]));
    }
    return "?";
}

static const Sonde__V1__ChangeKind kinds[] = {
    [LEVEL_MORE] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE,
    [LEVEL_LESS] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_LESS,
    [LEVEL_MOVED] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED,
};

static Sonde__V1__ChangedFunction *make_function(const struct explaining *explaining,
                                                 const struct sides *sides,
                                                 const struct level_change *change) {
    const uint64_t *names = explaining->slots->names;
    Sonde__V1__ChangedFunction *function = sonde_arena_alloc(explaining->arena, sizeof *function);
    if (!function)
        return NULL;
    sonde__v1__changed_function__init(function);
    function->kind = kinds[change->kind];
    function->function = (char *)find_name(explaining, sides, names[change->function], function);
    function->key = names[change->function];
    if (change->moved_from != LEVEL_NONE) {
        function->moved_from_key = names[change->moved_from];
        function->moved_from = (char *)find_name(explaining, sides, function->moved_from_key, NULL);
    }
    function->before = change->before;
    function->after = change->after;
    function->factor = change->factor;
    function->low = change->low;
    function->high = change->high;
    return function;
}

static sonde_err add_functions(const struct explaining *explaining, const struct sides *sides,
                               Sonde__V1__Change *change) {
    const struct level_result *result = explaining->result;
    change->functions =
        sonde_arena_alloc(explaining->arena, (result->count + 1) * sizeof *change->functions);
    if (!change->functions)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < result->count; i++) {
        change->functions[i] = make_function(explaining, sides, &result->changes[i]);
        if (!change->functions[i])
            return SONDE_OUT_OF_MEMORY;
        change->n_functions = i + 1;
    }
    return SONDE_OK;
}

/* ---- The page ---- */

/* The page's fragment escapes what is escaped already. */
static void put_escaped(struct sonde_buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                        (byte >= 'A' && byte <= 'Z') || strchr("-_.~", byte);
        sonde_buf_printf(out, is_plain ? "%c" : "%%25%02X", byte);
    }
}

static void put_side(struct sonde_buf *out, const char *key, const char *service, int64_t from,
                     int64_t until) {
    sonde_buf_printf(out, "%s=history%%2F", key);
    put_escaped(out, service);
    sonde_buf_printf(out, "%%2F%lld%%2F%lld%%2F" SLOTS_EVENT, (long long)from, (long long)until);
}

static const char *page_of(const struct explaining *explaining, const struct attribution *times) {
    struct sonde_buf out = {0};
    sonde_buf_puts(&out, "/#compare?");
    put_side(&out, "base", explaining->slots->service, times->before_unix_s, times->change_unix_s);
    sonde_buf_putc(&out, '&');
    put_side(&out, "new", explaining->slots->service, times->change_unix_s, times->until_unix_s);
    const char *page = out.failed ? "" : copy(explaining->arena, out.data);
    sonde_buf_finish(&out);
    return page;
}

/* ---- All together ---- */

sonde_err watch_explain(const struct explaining *explaining, Sonde__V1__Change *change,
                        struct sonde_diag *diag) {
    struct attribution times = {.explaining = explaining};
    struct sides sides = {.before = {.profile = NULL}};
    size_t before = slot_before(explaining->slots, explaining->result->slot);
    set_times(explaining, &times);
    sonde__v1__change__init(change);
    change->service = (char *)copy(explaining->arena, explaining->slots->service);
    change->event = (char *)SLOTS_EVENT;
    change->found_unix_ns = explaining->now_unix_s * SECOND;
    change->from_unix_ns = time_of(explaining->slots, before) * SECOND;
    change->until_unix_ns = times.change_unix_s * SECOND;
    change->page = (char *)page_of(explaining, &times);
    sonde_err err =
        read_side(explaining, times.before_unix_s, times.change_unix_s, &sides.before, diag);
    if (!err)
        err = read_side(explaining, times.change_unix_s, times.until_unix_s, &sides.after, diag);
    if (!err)
        err = add_functions(explaining, &sides, change);
    if (!err)
        err = attribute_host(&times, change, diag);
    if (!err)
        err = attribute_labels(&times, change, diag);
    sonde_profile_destroy(sides.before.profile);
    sonde_profile_destroy(sides.after.profile);
    return err;
}
