/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/time_parts.h"

#include "api/profile/diff/diff.h"
#include "api/profile/event.h"

#define HOUR_S     3600
#define PART_BYTES (32u << 20) /* of a part in memory */

static int64_t round_up_to(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

/* Whole windows. Longer parts are whole hours, of which stores keep sums. */
static void find_parts(int64_t from, int64_t until, int64_t *begin, int64_t *length) {
    *begin = from;
    *length =
        round_up_to((until - from + SONDE_TIME_PARTS - 1) / SONDE_TIME_PARTS, HISTORY_WINDOW_S);
    if (*length < HOUR_S)
        return;
    *begin = from / HOUR_S * HOUR_S;
    *length = round_up_to((until - *begin + SONDE_TIME_PARTS - 1) / SONDE_TIME_PARTS, HOUR_S);
}

static sonde_err scale_part(struct store_profile *part, double scale) {
    struct sonde_profile *scaled;
    if (scale == 1)
        return SONDE_OK;
    sonde_err err = sonde_profile_scaled(part->profile, scale, &scaled);
    if (err)
        return err;
    sonde_profile_destroy(part->profile);
    part->profile = scaled;
    return SONDE_OK;
}

/* The arena is for the texts of the part. */
static sonde_err read_part(struct store *store, const struct history_selection *selection,
                           struct sonde_arena *arena, struct store_profile *part,
                           struct sonde_diag *diag) {
    *part = (struct store_profile){.profile = NULL};
    return selection->host_totals
               ? store_profile_totals(store, &selection->query, arena, part, diag)
               : store_profile_query(store, &selection->query, arena, PART_BYTES, part, diag);
}

static sonde_err add_part(struct history_query *query, const struct history_selection *selection,
                          const struct history_measure *measure, struct sonde_time_parts *parts,
                          struct sonde_diag *diag) {
    struct store_profile part;
    struct sonde_arena arena = {0};
    sonde_err err = read_part(query->history->store, selection, &arena, &part, diag);
    sonde_arena_finish(&arena);
    if (!err)
        err = scale_part(&part, measure->scale);
    const struct store_merge *merge = &part.merge;
    double exposure = (double)(measure->by_process ? merge->covered_ns : merge->wall_ns);
    if (err || merge->windows == 0 || exposure <= 0) {
        sonde_profile_destroy(part.profile);
        return err;
    }
    parts->profiles[parts->count] = part.profile;
    parts->exposures[parts->count++] = exposure;
    return SONDE_OK;
}

/* So that the amounts of all parts together are those of the whole. */
static void share_exposures(struct sonde_time_parts *parts) {
    double sum = 0;
    for (size_t i = 0; i < parts->count; i++)
        sum += parts->exposures[i];
    for (size_t i = 0; i < parts->count; i++)
        parts->exposures[i] /= sum;
}

sonde_err history_time_parts(struct history_query *query, const struct history_selection *selection,
                             const struct store_merge *whole, const struct history_measure *measure,
                             struct sonde_time_parts *parts, struct sonde_diag *diag) {
    struct history_selection one = *selection;
    int64_t from = selection->query.from_unix_s, until = selection->query.until_unix_s;
    int64_t begin, length;
    sonde_err err = SONDE_OK;
    *parts = (struct sonde_time_parts){.count = 0};
    if (sonde_event_is_state(selection->query.event) || whole->windows == 0)
        return SONDE_OK;
    from = from > whole->first_unix_s ? from : whole->first_unix_s;
    until = until < whole->last_unix_s ? until : whole->last_unix_s;
    if (until - from < (int64_t)SONDE_TIME_PARTS_MIN * HISTORY_WINDOW_S)
        return SONDE_OK;
    find_parts(from, until, &begin, &length);
    for (int64_t at = begin; at < until && !err; at += length) {
        one.query.from_unix_s = at > from ? at : from;
        one.query.until_unix_s = at + length < until ? at + length : until;
        err = store_stop_check(&query->stop, diag);
        if (!err)
            err = add_part(query, &one, measure, parts, diag);
    }
    if (err == SONDE_TOO_LARGE || err == SONDE_OUT_OF_MEMORY) {
        sonde_time_parts_finish(parts);
        err = SONDE_OK;
    }
    share_exposures(parts);
    return err;
}
