/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde leaks`: which allocation sites of a service leak, by what history has of its live memory.
 * The range is cut into blocks. The profile of each block's end says what each site held, and the
 * CPU time of each block how much the service had to do. */
#include "api/profile/event.h"
#include "clients/cli/history.h"
#include "clients/cli/verbs/leaks/print.h"
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S      1000000000ll
#define STEP_S        10  /* steps of series are multiples of it */
#define LEAST_BLOCK_S 120 /* live memory is recorded once a minute */
#define MAX_VERSIONS  1000
#define DEFAULT_FROM  "-6h"

struct settings {
    struct service_settings service;
    const char *from, *until, *selector;
    bool json;
};

struct leaks {
    const struct settings *settings;
    const char *name;
    struct service service;
    int64_t from_unix_s, block_s;
    struct sites sites;
    double traffic[LEAK_MAX_BLOCKS];
    struct leak_blocks blocks;
    Sonde__V1__QuerySeriesResponse *versions; /* of live memory */
    struct leak_row *rows;
    size_t count;
};

/* ---- series ---- */

static sonde_err ask_series(struct leaks *leaks, enum sonde_event_id event, const char *group_by,
                            const struct history_range *range,
                            Sonde__V1__QuerySeriesResponse **answer, struct sonde_diag *diag) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    ProtobufCMessage *message;
    char *by[] = {(char *)group_by};
    history_select(&selection, leaks->name, sonde_events[event].name, leaks->settings->selector,
                   range);
    request.selection = &selection;
    request.step_s = (uint32_t)leaks->block_s;
    request.group_by = by;
    request.n_group_by = group_by ? 1 : 0;
    request.limit = MAX_VERSIONS;
    sonde_err err =
        service_call(&leaks->service, &client_query_series, &request.base, &message, diag);
    *answer = err ? NULL : (void *)message;
    return history_explain(err, diag);
}

static int64_t first_time(const Sonde__V1__Series *series) {
    return series->n_time_unix_s ? series->time_unix_s[0] : INT64_MAX;
}

/* Cuts the range into blocks. Those before the first record are left out. */
static sonde_err cut(struct leaks *leaks, const struct history_range *range,
                     struct sonde_diag *diag) {
    int64_t from = range->from_unix_ns / NS_PER_S, until = range->until_unix_ns / NS_PER_S;
    int64_t first = INT64_MAX;
    for (size_t i = 0; leaks->versions && i < leaks->versions->n_series; i++)
        if (first_time(leaks->versions->series[i]) < first)
            first = first_time(leaks->versions->series[i]);
    if (from < first && first < INT64_MAX)
        from = first;
    int64_t step = (until - from) / LEAK_MAX_BLOCKS / STEP_S * STEP_S;
    leaks->block_s = step < LEAST_BLOCK_S ? LEAST_BLOCK_S : step;
    leaks->from_unix_s = (from + leaks->block_s - 1) / leaks->block_s * leaks->block_s;
    int64_t count = (until - leaks->from_unix_s) / leaks->block_s;
    leaks->blocks.count =
        count < LEAK_MAX_BLOCKS ? (size_t)(count > 0 ? count : 0) : LEAK_MAX_BLOCKS;
    if (leaks->blocks.count < LEAK_LEAST_BLOCKS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a verdict needs %d minutes of recorded live memory, and this time has "
                          "%" PRId64 ": choose an earlier --from, or wait",
                          (LEAK_LEAST_BLOCKS + 1) * LEAST_BLOCK_S / 60, (until - from) / 60);
    return SONDE_OK;
}

static sonde_err read_versions(struct leaks *leaks, const struct history_range *range,
                               struct sonde_diag *diag) {
    leaks->block_s = LEAST_BLOCK_S;
    int64_t least_s = (range->until_unix_ns - range->from_unix_ns) / NS_PER_S / 1000;
    if (leaks->block_s < least_s)
        leaks->block_s = least_s;
    sonde_err err = ask_series(leaks, SONDE_MEM_INUSE, "version", range, &leaks->versions, diag);
    if (!err && leaks->versions->n_series == 0)
        err = sonde_fail(diag, SONDE_NOT_FOUND,
                         "history has no live memory of \"%.80s\" in this time; it is recorded "
                         "while the heap is sampled: run `sonde heap on %.80s`, or see `sonde "
                         "growth` for a process that is not prepared",
                         leaks->name, leaks->name);
    return err;
}

static sonde_err read_traffic(struct leaks *leaks, const struct history_range *range,
                              struct sonde_diag *diag) {
    Sonde__V1__QuerySeriesResponse *answer;
    sonde_err err = ask_series(leaks, SONDE_ON_CPU, NULL, range, &answer, diag);
    if (err)
        return err;
    for (size_t i = 0; i < answer->n_series; i++) {
        const Sonde__V1__Series *series = answer->series[i];
        for (size_t k = 0; k < series->n_time_unix_s && k < series->n_value; k++) {
            int64_t block = (series->time_unix_s[k] - leaks->from_unix_s) / leaks->block_s;
            if (block >= 0 && block < LEAK_MAX_BLOCKS)
                leaks->traffic[block] += (double)series->value[k];
        }
    }
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return SONDE_OK;
}

/* ---- profiles ---- */

static sonde_err read_block(struct leaks *leaks, size_t block, struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct capture_result result = {0};
    struct source_memory memory;
    struct sonde_profile *profile = NULL;
    int64_t from_s = leaks->from_unix_s + (int64_t)block * leaks->block_s;
    struct history_range range = {from_s * NS_PER_S, (from_s + leaks->block_s) * NS_PER_S};
    history_select(&selection, leaks->name, sonde_events[SONDE_MEM_INUSE].name,
                   leaks->settings->selector, &range);
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.selection = &selection;
    request.rendering = &rendering;
    sonde_err err = source_memory_open(&memory, diag);
    if (!err)
        err = capture_receive(&leaks->service, &client_query_profile, &request.base,
                              HISTORY_TIMEOUT_MS, &memory.output, &result, diag);
    bool is_empty = err == SONDE_NOT_FOUND ||
                    (result.completeness.is_known && result.completeness.windows_received == 0);
    if (!err && !is_empty)
        err = source_read(memory.path, &profile, diag);
    if (!err && !is_empty)
        err = sites_add(&leaks->sites, block, profile, diag);
    sonde_profile_destroy(profile);
    output_finish(&memory.output);
    return is_empty ? SONDE_OK : err;
}

static sonde_err read_blocks(struct leaks *leaks, struct sonde_diag *diag) {
    bool is_told = isatty(2);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < leaks->blocks.count; i++) {
        if (is_told)
            fprintf(stderr, "\rreading block %zu of %zu", i + 1, leaks->blocks.count);
        err = read_block(leaks, i, diag);
    }
    if (is_told)
        fputs("\r\033[K", stderr);
    return err;
}

/* ---- verdicts ---- */

/* The version that appeared in the block, or in one beside it. */
static const char *find_version(const struct leaks *leaks, size_t block) {
    int64_t at = leaks->from_unix_s + (int64_t)block * leaks->block_s;
    for (size_t i = 0; block > 1 && i < leaks->versions->n_series; i++) {
        const Sonde__V1__Series *series = leaks->versions->series[i];
        int64_t distance = first_time(series) - at;
        if (series->n_labels > 0 && series->labels[0]->value[0] &&
            distance >= -2 * leaks->block_s && distance <= 2 * leaks->block_s)
            return series->labels[0]->value;
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    const struct leak_row *left = a, *right = b;
    if (left->verdict.kind != right->verdict.kind)
        return left->verdict.kind < right->verdict.kind ? -1 : 1;
    return (left->verdict.rate < right->verdict.rate) - (left->verdict.rate > right->verdict.rate);
}

static sonde_err judge_all(struct leaks *leaks) {
    leaks->blocks.totals = leaks->sites.totals;
    leaks->blocks.traffic = leaks->traffic;
    leaks->rows = calloc(leaks->sites.count + 1, sizeof *leaks->rows);
    if (!leaks->rows)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < leaks->sites.count; i++) {
        const struct site *site = &leaks->sites.items[i];
        struct leak_verdict verdict = leak_judge(&leaks->blocks, site->values);
        if (verdict.kind != LEAK_NONE)
            leaks->rows[leaks->count++] =
                (struct leak_row){site, verdict, find_version(leaks, verdict.since)};
    }
    qsort(leaks->rows, leaks->count, sizeof *leaks->rows, compare);
    return SONDE_OK;
}

static sonde_err print(const struct leaks *leaks) {
    const struct leak_report report = {
        .service = leaks->name,
        .from_unix_s = leaks->from_unix_s,
        .block_s = leaks->block_s,
        .blocks = &leaks->blocks,
        .rows = leaks->rows,
        .count = leaks->count,
        .judged = leaks->sites.count,
        .left_out = leaks->sites.left_out,
    };
    if (leaks->settings->json)
        return leaks_print_json(&report);
    leaks_print_text(&report);
    return SONDE_OK;
}

static sonde_err answer(struct leaks *leaks, struct history_range *range, struct sonde_diag *diag) {
    sonde_err err = service_open(&leaks->service, &leaks->settings->service, diag);
    if (!err)
        err = read_versions(leaks, range, diag);
    if (!err)
        err = cut(leaks, range, diag);
    range->from_unix_ns = leaks->from_unix_s * NS_PER_S;
    if (!err)
        err = read_traffic(leaks, range, diag);
    if (!err)
        err = read_blocks(leaks, diag);
    if (!err)
        err = judge_all(leaks);
    if (!err)
        err = print(leaks);
    service_close(&leaks->service);
    return err;
}

static int on_leaks(int argc, char **argv) {
    struct settings settings = {.from = DEFAULT_FROM};
    struct history_range range;
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_leaks, &settings, false, &argc, argv, &status))
        return status;
    if (argc != 2)
        return cli_usage(&verb_leaks,
                         argc < 2 ? "name a service of the history (sonde history)"
                                  : "unexpected argument \"%s\"",
                         argc < 2 ? "" : argv[2]);
    if (history_read_range("from", settings.from, "until", settings.until, history_now_ns(), &range,
                           &diag))
        return cli_usage(&verb_leaks, "%s", diag.text);
    struct leaks leaks = {.settings = &settings, .name = argv[1]};
    sites_init(&leaks.sites);
    sonde_err err = answer(&leaks, &range, &diag);
    if (leaks.versions)
        protobuf_c_message_free_unpacked(&leaks.versions->base, NULL);
    free(leaks.rows);
    sites_finish(&leaks.sites);
    return err ? cli_fail(&verb_leaks, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    HISTORY_OPTION(struct settings, "from", "TIME", from,
                   "begin: -6h (default), -7d, 10:00, 2025-11-23T03:42:02Z or Unix"),
    HISTORY_OPTION(struct settings, "until", "TIME", until, "end (default now)"),
    HISTORY_OPTION(struct settings, "selector", "TEXT", selector,
                   "condition on labels: \"host = 'a'\" or '{host=\"a\"}'"),
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print the verdicts, with what each site held, as JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde leaks SERVICE [--from -6h] [--until now]",
    .about = "Says which allocation sites of a service leak, by the live memory in the history.\n"
             "LEAK: grows whatever the load is. LEVELS OFF: a cache that fills up. FOLLOWS LOAD:\n"
             "follows the service's CPU time. Needs 50 minutes of history with the heap sampled.",
    .examples = "  sonde leaks shop\n"
                "  sonde leaks shop --from -7d --json\n"
                "  sonde leaks shop --selector \"version = '1.5'\"\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_leaks = {"leaks", "say which code of a service leaks memory", on_leaks,
                                &options};
