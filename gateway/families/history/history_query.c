/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/history/history_query.h"

#include "api/base/clock.h"
#include "api/text/time_text.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_KEY 40

static char *const no_text = (char *)"";

int64_t history_now(void) {
    return clock_ns(CLOCK_REALTIME);
}

Sonde__V1__Selection history_default_selection(void) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    int64_t now = history_now();
    selection.service = selection.event = selection.selector = no_text;
    selection.until_unix_ns = now;
    selection.from_unix_ns = now - (int64_t)3600 * HISTORY_NS_PER_S;
    return selection;
}

sonde_err history_read_text(const struct query *query, const char *key, struct sonde_arena *arena,
                            char **text, struct sonde_diag *diag) {
    struct sonde_slice value;
    if (!query_get(query, key, &value))
        return SONDE_OK;
    if (memchr(value.data, 0, value.len) || !sonde_utf8_is_valid(value.data, value.len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: must be UTF-8 without NUL", key);
    *text = sonde_arena_dup(arena, value.data, value.len);
    return *text ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static const char *prefixed(char key[MAX_KEY], const char *prefix, const char *name) {
    snprintf(key, MAX_KEY, "%s%s", prefix, name);
    return key;
}

sonde_err history_read_time(const struct query *query, const char *key, int64_t now_ns,
                            int64_t *unix_ns, struct sonde_diag *diag) {
    struct sonde_slice text;
    struct sonde_diag why = {0};
    if (!query_get(query, key, &text))
        return SONDE_OK;
    sonde_err err = sonde_time_read(text, now_ns, unix_ns, &why);
    return err ? sonde_fail(diag, err, "%s: %.280s", key, sonde_diag_text(&why, err)) : SONDE_OK;
}

static sonde_err read_times(const struct query *query, const char *prefix,
                            Sonde__V1__Selection *selection, struct sonde_diag *diag) {
    char from[MAX_KEY], until[MAX_KEY];
    int64_t now = history_now();
    sonde_err err = history_read_time(query, prefixed(from, prefix, "from"), now,
                                      &selection->from_unix_ns, diag);
    if (!err)
        err = history_read_time(query, prefixed(until, prefix, "until"), now,
                                &selection->until_unix_ns, diag);
    if (!err && selection->from_unix_ns >= selection->until_unix_ns)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must be before %s", from, until);
    return err;
}

sonde_err history_read_selection(const struct query *query, const char *prefix,
                                 struct sonde_arena *arena, Sonde__V1__Selection *selection,
                                 struct sonde_diag *diag) {
    char key[MAX_KEY];
    bool is_host_view = selection->host_totals;
    sonde_err err = history_read_text(query, prefixed(key, prefix, "service"), arena,
                                      &selection->service, diag);
    if (!err)
        err = history_read_text(query, prefixed(key, prefix, "event"), arena, &selection->event,
                                diag);
    if (!err)
        err = history_read_text(query, prefixed(key, prefix, "selector"), arena,
                                &selection->selector, diag);
    if (!err)
        err = query_flag(query, prefixed(key, prefix, "host_totals"), &is_host_view, diag);
    selection->host_totals = is_host_view;
    return err ? err : read_times(query, prefix, selection, diag);
}

/* The service names a field of its request, "selection.selector: ..."; the client knows it as
 * "selector", and those of the base with "base_" in front. */
static const struct sonde_diag *rename_field(const struct sonde_diag *diag) {
    static const char prefix[] = "selection.", base[] = "base_selection.";
    static struct sonde_diag renamed;
    bool is_base = strncmp(diag->text, base, sizeof base - 1) == 0;
    if (!is_base && strncmp(diag->text, prefix, sizeof prefix - 1) != 0)
        return diag;
    renamed = (struct sonde_diag){.code = diag->code};
    snprintf(renamed.text, sizeof renamed.text, "%s%s", is_base ? "base_" : "",
             diag->text + (is_base ? sizeof base : sizeof prefix) - 1);
    return &renamed;
}

sonde_err history_explain(sonde_err err, const struct sonde_diag **diag) {
    static const struct sonde_diag no_store = {
        SONDE_NOT_AVAILABLE, 0,
        "there is no history store: start sonded with --history, or sonde-gateway with --history "
        "ADDR"};
    if (err == SONDE_UNIMPLEMENTED || err == SONDE_NOT_AVAILABLE) {
        *diag = &no_store;
        return SONDE_NOT_AVAILABLE;
    }
    if (err == SONDE_INVALID_ARGUMENT && *diag)
        *diag = rename_field(*diag);
    return err;
}

void history_on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    err = history_explain(err ? err : SONDE_PROTOCOL, &diag);
    relay_refuse(relay, err, diag);
}
