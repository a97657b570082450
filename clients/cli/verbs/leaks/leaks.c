/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde leaks`: which allocation sites of a service leak, by what history has of its live memory.
 * The profile of each block's end says what each site held. More processes hold more, so the values
 * are those of one process times the number of processes at the end. */
#include "clients/cli/verbs/leaks/blocks.h"
#include "clients/cli/verbs/leaks/print.h"
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_FROM "-6h"

struct settings {
    struct service_settings service;
    const char *from, *until, *selector;
    bool json;
};

struct leaks {
    const struct settings *settings;
    struct service service;
    struct blocks blocks;
    struct sites sites;
    struct leak_row *rows;
    size_t count;
    /* The blocks that are recorded. */
    size_t block_of[LEAK_MAX_BLOCKS], recorded;
    double traffic[LEAK_MAX_BLOCKS], scale[LEAK_MAX_BLOCKS];
    bool is_changed[LEAK_MAX_BLOCKS];
};

/* ---- profiles ---- */

static sonde_err read_block(struct leaks *leaks, size_t block, struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct capture_result result = {0};
    struct source_memory memory;
    struct sonde_profile *profile = NULL;
    struct history_range range = blocks_range(&leaks->blocks, block);
    history_select(&selection, leaks->blocks.name, sonde_events[SONDE_MEM_INUSE].name,
                   leaks->settings->selector, &range);
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.selection = &selection;
    request.rendering = &rendering;
    sonde_err err = source_memory_open(&memory, diag);
    if (!err)
        err = capture_receive(&leaks->service, &client_query_profile, &request.base,
                              HISTORY_TIMEOUT_MS, &memory.output, &result, diag);
    if (!err)
        err = source_read(memory.path, &profile, diag);
    if (!err)
        err = sites_add(&leaks->sites, block, profile, diag);
    sonde_profile_destroy(profile);
    output_finish(&memory.output);
    return err;
}

static sonde_err read_all(struct leaks *leaks, struct sonde_diag *diag) {
    bool is_told = isatty(2);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < leaks->blocks.count; i++) {
        if (is_told)
            fprintf(stderr, "\rreading block %zu of %zu", i + 1, leaks->blocks.count);
        if (leaks->blocks.processes[i])
            err = read_block(leaks, i, diag);
    }
    if (is_told)
        fputs("\r\033[K", stderr);
    return err;
}

/* ---- verdicts ---- */

/* Takes the blocks that are recorded. The step over a gap does not count. */
static sonde_err take_recorded(struct leaks *leaks, struct sonde_diag *diag) {
    const struct blocks *blocks = &leaks->blocks;
    bool is_changed = false;
    for (size_t i = 0; i < blocks->count; i++) {
        is_changed |= blocks->is_changed[i];
        if (!blocks->processes[i])
            continue;
        leaks->block_of[leaks->recorded] = i;
        leaks->traffic[leaks->recorded] = blocks->traffic[i] / blocks->processes[i];
        leaks->scale[leaks->recorded] = 1.0 / blocks->processes[i];
        leaks->is_changed[leaks->recorded++] = is_changed;
        is_changed = false;
    }
    if (leaks->recorded < LEAK_LEAST_BLOCKS)
        return blocks_refuse_short((int64_t)leaks->recorded * blocks->block_s, diag);
    for (size_t i = 0; i < leaks->recorded; i++)
        leaks->scale[i] *= blocks->processes[leaks->block_of[leaks->recorded - 1]];
    return SONDE_OK;
}

static struct leak_verdict judge(const struct leaks *leaks, const struct site *site) {
    double values[LEAK_MAX_BLOCKS];
    const struct leak_blocks blocks = {
        .count = leaks->recorded,
        .whole = leaks->sites.totals[leaks->block_of[leaks->recorded - 1]],
        .traffic = leaks->traffic,
        .is_changed = leaks->is_changed,
    };
    for (size_t i = 0; i < leaks->recorded; i++)
        values[i] = site->values[leaks->block_of[i]] * leaks->scale[i];
    return leak_judge(&blocks, values);
}

static int compare(const void *a, const void *b) {
    const struct leak_row *left = a, *right = b;
    if (left->verdict.kind != right->verdict.kind)
        return left->verdict.kind < right->verdict.kind ? -1 : 1;
    return (left->verdict.rate < right->verdict.rate) - (left->verdict.rate > right->verdict.rate);
}

static sonde_err judge_all(struct leaks *leaks, struct sonde_diag *diag) {
    sonde_err err = take_recorded(leaks, diag);
    if (err)
        return err;
    leaks->rows = calloc(leaks->sites.count + 1, sizeof *leaks->rows);
    if (!leaks->rows)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < leaks->sites.count; i++) {
        struct leak_row row = {&leaks->sites.items[i], judge(leaks, &leaks->sites.items[i]), NULL};
        if (row.verdict.kind == LEAK_NONE)
            continue;
        row.verdict.since = leaks->block_of[row.verdict.since];
        row.version = blocks_version(&leaks->blocks, row.verdict.since);
        leaks->rows[leaks->count++] = row;
    }
    qsort(leaks->rows, leaks->count, sizeof *leaks->rows, compare);
    return SONDE_OK;
}

static sonde_err print(const struct leaks *leaks, const struct history_range *asked) {
    const struct leak_report report = {
        .blocks = &leaks->blocks,
        .last = leaks->block_of[leaks->recorded - 1],
        .recorded = leaks->recorded,
        .sites = &leaks->sites,
        .rows = leaks->rows,
        .count = leaks->count,
        .begins_late =
            leaks->blocks.first_unix_s - leaks->blocks.block_s > asked->from_unix_ns / 1000000000,
    };
    if (leaks->settings->json)
        return leaks_print_json(&report);
    leaks_print_text(&report);
    return SONDE_OK;
}

static sonde_err answer(struct leaks *leaks, const struct history_range *range,
                        struct sonde_diag *diag) {
    sonde_err err = service_open(&leaks->service, &leaks->settings->service, diag);
    if (!err)
        err = blocks_read(&leaks->blocks, range, diag);
    if (!err)
        err = read_all(leaks, diag);
    if (!err)
        err = judge_all(leaks, diag);
    if (!err)
        err = print(leaks, range);
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
    if (argc < 2)
        return cli_usage(&verb_leaks, "service name needed; run `sonde history` for a list");
    if (argc > 2)
        return cli_usage(&verb_leaks, "unexpected argument \"%s\"", argv[2]);
    if (history_read_range("from", settings.from, "until", settings.until, history_now_ns(), &range,
                           &diag))
        return cli_usage(&verb_leaks, "%s", diag.text);
    struct leaks leaks = {.settings = &settings,
                          .blocks = {.name = argv[1], .selector = settings.selector}};
    leaks.blocks.service = &leaks.service;
    sites_init(&leaks.sites);
    sonde_err err = answer(&leaks, &range, &diag);
    blocks_finish(&leaks.blocks);
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
    .about = "Finds the allocation sites of a service that leak, from the live memory in its\n"
             "history. LEAK: grows whatever the load is. LEVELS OFF: a cache that fills up.\n"
             "FOLLOWS LOAD: grows with the CPU time. Needs 50 minutes of history in which the\n"
             "heap was sampled. In the first hours, memory that replaces older memory grows.",
    .examples = "  sonde leaks shop\n"
                "  sonde leaks shop --from -7d --json\n"
                "  sonde leaks shop --from 08:00 --until 12:00\n"
                "  sonde leaks shop --selector \"version = '1.5'\"\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_leaks = {"leaks", "find the code of a service that leaks memory", on_leaks,
                                &options};
