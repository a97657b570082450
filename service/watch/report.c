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

static bool is_same(const struct report *report, const struct level_change *change,
                    const Sonde__V1__ChangedFunction *known) {
    static const Sonde__V1__ChangeKind kinds[] = {
        [LEVEL_MORE] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MORE,
        [LEVEL_LESS] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_LESS,
        [LEVEL_MOVED] = SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED,
    };
    const uint64_t *names = report->slots->names;
    uint64_t function = slots_hash_shown(known->function);
    if (function == names[change->function])
        return known->kind == kinds[change->kind];
    /* A cost that moved may look like either end of it. */
    return *known->moved_from && slots_hash_shown(known->moved_from) == names[change->function];
}

static void remove_known(const struct report *report, const Sonde__V1__Change *known) {
    struct level_result *result = report->result;
    size_t kept = 0;
    for (size_t i = 0; i < result->count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < known->n_functions && !is_known; j++)
            is_known = is_same(report, &result->changes[i], known->functions[j]);
        if (!is_known)
            result->changes[kept++] = result->changes[i];
    }
    result->count = kept;
}

static sonde_err remove_reported(const struct report *report, struct sonde_arena *arena,
                                 struct sonde_diag *diag) {
    const struct store_change_query query = {
        .service = report->slots->service,
        .from_unix_s = (report->slots->last - 2 * LEVEL_SLOTS) * LEVEL_SLOT_S,
        .until_unix_s = report->now_unix_s + DAY_S,
        .limit = MOST_KNOWN,
        .stop = report->stop};
    struct store_change *changes;
    size_t count;
    sonde_err err =
        report->store->ops->changes(report->store, &query, arena, &changes, &count, diag);
    for (size_t i = 0; i < count && !err; i++) {
        Sonde__V1__Change *known = sonde__v1__change__unpack(NULL, changes[i].body.len,
                                                             (const uint8_t *)changes[i].body.data);
        if (!known)
            continue; /* of a newer Sonde, or damaged */
        remove_known(report, known);
        sonde__v1__change__free_unpacked(known, NULL);
    }
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
    if (first->kind != SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED && first->factor > 0)
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

static sonde_err store_it(const struct report *report, const Sonde__V1__Change *change,
                          struct sonde_diag *diag) {
    struct sonde_buf body = {0};
    uint8_t *packed = NULL;
    size_t size = sonde__v1__change__get_packed_size(change);
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
