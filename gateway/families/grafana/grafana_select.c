/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde's names are shorter, so a translated selector is padded with blanks. */
#include "gateway/families/grafana/grafana_select.h"

#include "api/profile/event.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <string.h>

#define MAX_MS    9000000000000
#define NS_PER_MS 1000000

const char *grafana_label_to_sonde(const char *name) {
    return strcmp(name, GRAFANA_SERVICE) == 0 ? "service"
           : strcmp(name, GRAFANA_TYPE) == 0  ? "event"
                                              : name;
}

const char *grafana_label_from_sonde(const char *name) {
    return strcmp(name, "service") == 0 ? GRAFANA_SERVICE
           : strcmp(name, "event") == 0 ? GRAFANA_TYPE
                                        : name;
}

static size_t name_length(const char *text) {
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
}

/* The length of a quoted text with its quotes. */
static size_t quoted_length(const char *text) {
    size_t at = 1;
    for (; text[at]; at++) {
        if (text[at] == text[0])
            return at + 1;
        if (text[at] == '\\' && text[at + 1])
            at++;
    }
    return at;
}

/* Writes new bytes over old_len bytes, which are at least as many. */
static void overwrite(char *at, size_t old_len, const char *text) {
    size_t len = strlen(text);
    memcpy(at, text, len);
    memset(at + len, ' ', old_len - len);
}

/* The event of one of Pyroscope's ids of a profile type; SONDE_NO_EVENT if there is none. */
static const char *event_of_type(struct sonde_slice id) {
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded && sonde_slice_equals(id, sonde_events[i].pyroscope_id))
            return sonde_events[i].name;
    return SONDE_NO_EVENT;
}

/* `__profile_type__="ID"` at `at` becomes `event="on-cpu"`, which is quicker; returns the length of
 * both. Any other condition on it is left to the store. */
static size_t translate_type(char *at) {
    char event[32];
    size_t len = strlen(GRAFANA_TYPE), blanks = strspn(at + len, " \t");
    char *equals = at + len + blanks;
    char *value = equals + 1 + (*equals ? strspn(equals + 1, " \t") : 0);
    if (*equals != '=' || *value != '"')
        return len;
    size_t quoted = quoted_length(value);
    if (quoted < 2 || value[quoted - 1] != '"')
        return len;
    struct sonde_slice id = {value + 1, quoted - 2};
    size_t whole = (size_t)(value - at) + quoted;
    snprintf(event, sizeof event, "event=\"%s\"", event_of_type(id));
    overwrite(at, whole, event);
    return whole;
}

static bool is_name(const char *at, size_t len, const char *name) {
    return len == strlen(name) && memcmp(at, name, len) == 0;
}

void grafana_translate_selector(char *selector) {
    for (char *at = selector; *at;) {
        size_t len = name_length(at);
        if (*at == '"' || *at == '\'') {
            at += quoted_length(at);
        } else if (is_name(at, len, GRAFANA_TYPE)) {
            at += translate_type(at);
        } else {
            if (is_name(at, len, GRAFANA_SERVICE))
                overwrite(at, len, "service");
            at += len ? len : 1;
        }
    }
}

bool grafana_is_text(const char *text) {
    return sonde_utf8_is_valid(text, strlen(text));
}

static int64_t to_ns(int64_t ms) {
    return (ms < 0 ? 0 : ms > MAX_MS ? MAX_MS : ms) * NS_PER_MS;
}

sonde_err grafana_read_range(int64_t start_ms, int64_t end_ms, Sonde__V1__Selection *selection,
                             struct sonde_diag *diag) {
    selection->from_unix_ns = to_ns(start_ms);
    selection->until_unix_ns = to_ns(end_ms); /* 0 = now */
    if (end_ms != 0 && selection->from_unix_ns >= selection->until_unix_ns)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "start must be before end");
    return SONDE_OK;
}

/* "" or {}. */
static bool selects_all(const char *matcher) {
    return !matcher[strspn(matcher, "{} \t")];
}

/* Grafana also writes the type in front, as Prometheus does with the name of a metric: ID{a="b"}.
 * It becomes a condition on the event. */
static char *dup_matcher(const char *matcher, struct sonde_arena *arena) {
    const char *begin = matcher + strspn(matcher, " \t"), *brace = begin + strcspn(begin, "{");
    struct sonde_buf text = {0};
    if (brace == begin)
        return sonde_arena_dup(arena, matcher, strlen(matcher));
    const char *rest = *brace ? brace + 1 : "}";
    bool is_alone = rest[strspn(rest, " \t")] == '}';
    sonde_buf_printf(&text, "{event=\"%s\"%s%s",
                     event_of_type((struct sonde_slice){begin, (size_t)(brace - begin)}),
                     is_alone ? "" : ",", rest);
    char *own = text.failed ? NULL : sonde_arena_dup(arena, text.data, text.len);
    sonde_buf_finish(&text);
    return own;
}

sonde_err grafana_read_matchers(char *const *matchers, size_t count, struct sonde_arena *arena,
                                Sonde__V1__Selection *selection, struct sonde_diag *diag) {
    const char *found = NULL;
    selection->selector = (char *)(uintptr_t) "";
    for (size_t i = 0; i < count; i++) {
        if (selects_all(matchers[i]))
            continue;
        if (found)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "more than one matcher");
        found = matchers[i];
    }
    if (!found)
        return SONDE_OK;
    if (!grafana_is_text(found))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the selector is not UTF-8");
    selection->selector = dup_matcher(found, arena);
    if (!selection->selector)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    grafana_translate_selector(selection->selector);
    return SONDE_OK;
}

sonde_err grafana_read_type(const char *type_id, Sonde__V1__Selection *selection,
                            struct sonde_diag *diag) {
    size_t colons = 0;
    for (const char *at = type_id; *at; at++)
        colons += *at == ':';
    if (colons != 4)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "profile_typeID: expected name:type:unit:period_type:period_unit, for "
                          "example %s",
                          sonde_events[SONDE_ON_CPU].pyroscope_id);
    selection->event = (char *)(uintptr_t)event_of_type(sonde_slice_of(type_id));
    return SONDE_OK;
}
