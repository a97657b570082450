/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/report.h"

#include "api/json/json.h"
#include "service/watch/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_KNOWN 1000
#define DAY_S      86400

/* ---- Known changes ---- */

/* The stored changes of the service, newest first. */
struct known {
    Sonde__V1__Change **changes;
    size_t count;
};

static bool is_about(const Sonde__V1__ChangedFunction *known, uint64_t key) {
    return known->key == key || (known->moved_from_key && known->moved_from_key == key);
}

static const Sonde__V1__ChangedFunction *newest_about(const struct known *known, uint64_t key) {
    for (size_t i = 0; i < known->count; i++)
        for (size_t j = 0; j < known->changes[i]->n_functions; j++)
            if (is_about(known->changes[i]->functions[j], key))
                return known->changes[i]->functions[j];
    return NULL;
}

/* The newest change of the function decides, so that a change that was taken back can come again. A
 * cost that moved may look like either end of it. */
static bool is_known(const struct known *known, uint64_t key, enum level_kind kind) {
    static const Sonde__V1__ChangeKind kinds[] = {
        [LEVEL_MORE] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE,
        [LEVEL_LESS] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_LESS,
        [LEVEL_MOVED] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED,
    };
    const Sonde__V1__ChangedFunction *newest = newest_about(known, key);
    return newest && (newest->key != key || newest->kind == kinds[kind]);
}

static void remove_known(const struct report *report, const struct known *known) {
    struct level_result *result = report->result;
    size_t kept = 0;
    for (size_t i = 0; i < result->count; i++) {
        const struct level_change *change = &result->changes[i];
        if (!is_known(known, report->slots->names[change->function], change->kind))
            result->changes[kept++] = *change;
    }
    result->count = kept;
}

static void known_finish(struct known *known) {
    for (size_t i = 0; i < known->count; i++)
        sonde__v1__change__free_unpacked(known->changes[i], NULL);
}

static sonde_err read_known(const struct report *report, struct sonde_arena *arena,
                            struct known *known, struct sonde_diag *diag) {
    const struct store_change_query query = {
        .service = report->slots->service,
        .from_unix_s = (report->slots->last - 2 * LEVEL_SLOTS) * LEVEL_SLOT_S,
        .until_unix_s = report->now_unix_s + DAY_S,
        .limit = MOST_KNOWN,
        .stop = report->stop};
    struct store_change *rows;
    size_t count;
    sonde_err err = report->store->ops->changes(report->store, &query, arena, &rows, &count, diag);
    if (err)
        return err;
    known->changes = sonde_arena_alloc(arena, (count + 1) * sizeof(Sonde__V1__Change *));
    for (size_t i = 0; known->changes && i < count; i++) {
        Sonde__V1__Change *change =
            sonde__v1__change__unpack(NULL, rows[i].body.len, (const uint8_t *)rows[i].body.data);
        if (change) /* otherwise of a newer Sonde, or damaged */
            known->changes[known->count++] = change;
    }
    return known->changes ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static sonde_err remove_reported(const struct report *report, struct sonde_arena *arena,
                                 struct sonde_diag *diag) {
    struct known known = {.changes = NULL};
    sonde_err err = read_known(report, arena, &known, diag);
    if (!err)
        remove_known(report, &known);
    known_finish(&known);
    return err;
}

/* ---- Reporting ---- */

/* "shop: parse +12 % since 2026-11-28T10:05Z, version 1.4 -> 1.5". Names come from outside, so the
 * log escapes control characters. */
static void write_line(const Sonde__V1__Change *change, char *line, size_t size) {
    const Sonde__V1__ChangedFunction *first = change->functions[0];
    char at[32] = "?", what[64] = "moved", extra[160] = "";
    time_t seconds = (time_t)(change->until_unix_ns / 1000000000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(at, sizeof at, "%FT%H:%MZ", &utc);
    if (first->kind != SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED && first->before > 0)
        snprintf(what, sizeof what, "%+.0f %%", 100 * (first->factor - 1));
    else if (first->kind != SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED)
        snprintf(what, sizeof what, "new with %.1f %%", 100 * first->after);
    if (*change->host)
        snprintf(extra, sizeof extra, ", only on %.100s", change->host);
    else if (change->n_labels)
        snprintf(extra, sizeof extra, ", %.40s %.40s -> %.40s", change->labels[0]->name,
                 change->labels[0]->before, change->labels[0]->after);
    snprintf(line, size, "change of %.80s: %.160s %s since %s%s", change->service, first->function,
             what, at, extra);
}

/* The last functions lose their callers first, then they are left out. */
static size_t trim(Sonde__V1__Change *change) {
    size_t size;
    for (size_t i = change->n_functions;
         (size = sonde__v1__change__get_packed_size(change)) > STORE_MAX_CHANGE_BYTES && i > 0; i--)
        change->functions[i - 1]->n_callers = 0;
    while (size > STORE_MAX_CHANGE_BYTES && change->n_functions > 1) {
        change->n_functions--;
        size = sonde__v1__change__get_packed_size(change);
    }
    return size;
}

static sonde_err store_it(const struct report *report, Sonde__V1__Change *change,
                          struct sonde_diag *diag) {
    struct sonde_buf body = {0};
    uint8_t *packed = NULL;
    size_t size = trim(change);
    if (size <= STORE_MAX_CHANGE_BYTES)
        packed = (uint8_t *)sonde_buf_extend(&body, size);
    if (!packed)
        return size > STORE_MAX_CHANGE_BYTES
                   ? sonde_fail(diag, SONDE_TOO_LARGE, "a change of %zu bytes", size)
                   : SONDE_OUT_OF_MEMORY;
    sonde__v1__change__pack(change, packed);
    const struct store_change row = {.time_unix_s = change->until_unix_ns / 1000000000,
                                     .service = change->service,
                                     .body = {(const char *)packed, size}};
    sonde_err err = report->store->ops->put_change(report->store, &row, diag);
    sonde_buf_finish(&body);
    return err;
}

static void notify(const struct report *report, const Sonde__V1__Change *change) {
    struct sonde_buf json = {0};
    char line[512];
    write_line(change, line, sizeof line);
    report->log(line);
    if (!report->webhook)
        return;
    sonde_json_message(&json, &change->base);
    if (!json.failed)
        webhook_add(report->webhook, sonde_buf_slice(&json));
    sonde_buf_finish(&json);
}

sonde_err report_change(const struct report *report, bool *is_repeated, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    Sonde__V1__Change change;
    const struct explaining explaining = {report->store, report->slots, report->result,
                                          report->stop,  &arena,        report->now_unix_s};
    sonde_err err = remove_reported(report, &arena, diag);
    *is_repeated = !err && report->result->count == 0;
    if (!err && !*is_repeated)
        err = watch_explain(&explaining, &change, diag);
    if (!err && !*is_repeated)
        err = store_it(report, &change, diag);
    if (!err && !*is_repeated)
        notify(report, &change);
    sonde_arena_finish(&arena);
    return err;
}
