/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/profile.h"

#include "api/profile/event.h"
#include "service/store/profile_frames.h"
#include "service/store/profile_rows.h"

#include <stdio.h>
#include <string.h>

/* Returns the number of types. */
static size_t types_of(const char *name, struct sonde_value_type types[2]) {
    const struct sonde_event *event = sonde_event_find(name);
    size_t count = 0;
    if (event && event->has_samples)
        types[count++] = (struct sonde_value_type){"samples", "count"};
    types[count++] =
        event ? event->amount.type : (struct sonde_value_type){name, sonde_event_unit(name)};
    return count;
}

static void set_info(const struct store_query *query, const struct store_merge *merge,
                     struct sonde_profile *profile) {
    size_t last = sonde_profile_type_count(profile) - 1;
    struct sonde_profile_info info = {
        .period_type = sonde_profile_type(profile, last),
        .period = merge->period_ns <= INT64_MAX ? (int64_t)merge->period_ns : 0,
        .duration_ns = query->event && sonde_event_is_state(query->event) ? 0 : merge->wall_ns,
        .default_type = (uint32_t)last,
        .is_unbiased = true, /* windows with different periods are summed */
    };
    if (query->from_unix_s > 0 && query->from_unix_s < INT64_MAX / 1000000000)
        info.time_unix_ns = query->from_unix_s * 1000000000;
    sonde_profile_set_info(profile, &info);
}

/* "name: value", which scripts can read. */
static sonde_err add_text(struct sonde_profile *profile, const char *name, const char *value) {
    struct sonde_buf text = {0};
    sonde_buf_printf(&text, "%s: %s", name, value);
    sonde_err err =
        text.failed ? SONDE_OUT_OF_MEMORY : sonde_profile_add_comment(profile, text.data);
    sonde_buf_finish(&text);
    return err;
}

static sonde_err add_count(struct sonde_profile *profile, const char *name, uint64_t count) {
    char text[24] = "none";
    if (count)
        snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    return add_text(profile, name, text);
}

static sonde_err add_comments(const struct store_query *query, const struct store_profile *result) {
    const struct store_merge *merge = &result->merge;
    struct sonde_profile *profile = result->profile;
    bool names_service = query->service && query->service[0];
    uint64_t missing =
        merge->windows_expected > merge->windows ? merge->windows_expected - merge->windows : 0;
    sonde_err err = add_text(profile, "service", names_service ? query->service : "all");
    if (!err)
        err = add_count(profile, "windows", merge->windows);
    if (!err)
        err = add_count(profile, "missing windows", missing);
    if (!err)
        err = add_count(profile, "dropped", merge->dropped);
    if (!err)
        err = add_count(profile, "unknown stacks", result->unknown_stacks);
    if (!err && merge->shards_answered < merge->shards_asked)
        err = add_count(profile, "missing shards", merge->shards_asked - merge->shards_answered);
    return err;
}

/* Sets info and comments; on an error destroys the profile. */
static sonde_err complete(const struct store_query *query, struct store_profile *result,
                          sonde_err err, struct sonde_diag *diag) {
    if (!err)
        err = add_comments(query, result);
    if (!err) {
        set_info(query, &result->merge, result->profile);
        result->merge.rows = NULL;
        result->merge.row_count = 0;
        return SONDE_OK;
    }
    sonde_profile_destroy(result->profile);
    result->profile = NULL;
    if (err == SONDE_TOO_LARGE)
        return sonde_fail(diag, err,
                          "the profile is over its memory bound; query a shorter range or one "
                          "service");
    return err == SONDE_OUT_OF_MEMORY
               ? sonde_fail(diag, err, "the profile could not be built: out of memory")
               : err;
}

sonde_err store_profile_query(struct store *store, const struct store_query *query,
                              struct sonde_arena *arena, size_t limit_bytes,
                              struct store_profile *result, struct sonde_diag *diag) {
    struct sonde_value_type types[2];
    size_t type_count = types_of(query->event, types);
    *result = (struct store_profile){0};
    sonde_err err = store->ops->merge(store, query, arena, &result->merge, diag);
    if (err)
        return err;
    result->profile = sonde_profile_create(types, type_count, limit_bytes);
    if (result->profile)
        err = profile_rows_add(store, query, &result->merge, result->profile,
                               &result->unknown_stacks, diag);
    else
        err = SONDE_OUT_OF_MEMORY;
    return complete(query, result, err, diag);
}

static sonde_err add_process(struct sonde_profile *profile, const struct store_total_row *row) {
    struct sonde_label label = {0};
    uint32_t location;
    struct sonde_sample sample = {.locations = &location,
                                  .location_count = 1,
                                  .label_count = row->thread[0] != 0,
                                  .values = &row->cpu_ns,
                                  .labels = &label};
    sonde_err err = profile_frames_note(profile, row->process, &location);
    if (!err)
        err = sonde_profile_string(profile, "thread", 6, &label.key);
    if (!err)
        err = sonde_profile_string(profile, row->thread, strlen(row->thread), &label.str);
    return err ? err : sonde_profile_add_sample(profile, &sample);
}

sonde_err store_profile_totals(struct store *store, const struct store_query *query,
                               struct sonde_arena *arena, struct store_profile *result,
                               struct sonde_diag *diag) {
    struct store_total_row *rows;
    size_t count = 0;
    *result = (struct store_profile){0};
    sonde_err err = store->ops->totals(store, query, arena, &rows, &count, &result->merge, diag);
    if (err)
        return err;
    result->profile = sonde_profile_create(&sonde_events[SONDE_ON_CPU].amount.type, 1, 0);
    err = result->profile ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++)
        err = add_process(result->profile, &rows[i]);
    return complete(query, result, err, diag);
}
