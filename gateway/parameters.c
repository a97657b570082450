/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/parameters.h"

#include <stdio.h>
#include <string.h>

enum unknown_parameters parameters_policy(enum family family) {
    static const enum unknown_parameters policies[] = {
        [FAMILY_PLAIN] = UNKNOWN_TYPOS,     [FAMILY_PPROF] = UNKNOWN_TYPOS,
        [FAMILY_PROF] = UNKNOWN_TYPOS,      [FAMILY_JULIA] = UNKNOWN_TYPOS,
        [FAMILY_V1] = UNKNOWN_REFUSED,      [FAMILY_TRACING] = UNKNOWN_IGNORED,
        [FAMILY_CONNECT] = UNKNOWN_IGNORED, [FAMILY_MCP] = UNKNOWN_IGNORED,
    };
    return policies[family];
}

/* Words of the route table whose parameter has another name, because openapi.yaml describes several
 * parameters of that name. NULL: a part of the path. */
static const struct {
    const char *word, *name;
} renamed[] = {
    {"allocs_output", "output"},
    {"base_capture", "base"},
    {"base_range_from", "base_from"},
    {"base_range_until", "base_until"},
    {"capture_number", NULL},
    {"code_address", "address"},
    {"code_function", "function"},
    {"code_offset", "offset"},
    {"code_start", "start"},
    {"counted", "event"},
    {"difference_output", "output"},
    {"heap_output", "output"},
    {"heap_seconds", "seconds"},
    {"history_limit", "limit"},
    {"id", NULL},
    {"label_name", NULL},
    {"new_capture", "new"},
    {"range_from", "from"},
    {"range_until", "until"},
    {"only_function", "function"},
    {"render_output", "output"},
    {"sample_interval", "interval"},
    {"ui_file", NULL},
};

static const char *name_of(const char *word) {
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
        if (strcmp(word, renamed[i].word) == 0)
            return renamed[i].name;
    return word;
}

size_t parameters_list(const struct route *route, const char *names[PARAMETERS_MAX],
                       char storage[PARAMETERS_STORAGE]) {
    size_t count = 0;
    snprintf(storage, PARAMETERS_STORAGE, "%s%s", route->parameters,
             route->flags & ROUTE_NO_TARGET ? "" : " target pid");
    for (char *rest = storage, *word; (word = strsep(&rest, " "));) {
        const char *name = *word ? name_of(word) : NULL;
        if (name && count < PARAMETERS_MAX)
            names[count++] = name;
    }
    return count;
}

/* Parameters of the other systems' documents and of Go's tools: on a path that does not have them
 * they are out of place, but not mistyped. */
static const char *const documented[] = {
    "activate", "all_one", "debug", "delay",  "duration", "frequency",   "gc",      "interval",
    "jeprof",   "n",       "name",  "output", "pprof",    "sample_rate", "seconds",
};

static bool is_listed(struct sonde_slice key, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (sonde_slice_equals(key, names[i]))
            return true;
    return false;
}

sonde_err parameters_check(const struct route *route, const struct query *query,
                           struct sonde_diag *diag) {
    const char *names[PARAMETERS_MAX];
    char storage[PARAMETERS_STORAGE];
    enum unknown_parameters policy = parameters_policy(route->family);
    if (query->count == 0 || policy == UNKNOWN_IGNORED)
        return SONDE_OK;
    size_t count = parameters_list(route, names, storage);
    for (size_t i = 0; i < query->count; i++) {
        struct sonde_slice key = query->pairs[i].key;
        bool is_foreign = policy == UNKNOWN_TYPOS &&
                          is_listed(key, documented, sizeof documented / sizeof documented[0]);
        if (is_foreign || is_listed(key, names, count))
            continue;
        const char *near = query_nearest(key, names, count);
        if (near || policy == UNKNOWN_REFUSED)
            return query_refuse_unknown("parameter", "this path", key, near, names, count, diag);
    }
    return SONDE_OK;
}
