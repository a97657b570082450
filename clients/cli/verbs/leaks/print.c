/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/leaks/print.h"

#include "api/draw/names/readable_name.h"
#include "api/json/json.h"
#include "clients/cli/cli.h"

#include <inttypes.h>
#include <math.h>

#define NS_PER_S 1000000000ll

/* By enum leak_kind. */
static const struct {
    const char *word, *json;
} kinds[] = {
    [LEAK_NONE] = {"", "NONE"},
    [LEAK_GROWS] = {"LEAK", "LEAK"},
    [LEAK_LEVELS_OFF] = {"LEVELS OFF", "LEVELS_OFF"},
    [LEAK_FOLLOWS_TRAFFIC] = {"FOLLOWS LOAD", "FOLLOWS_LOAD"},
};

static double per_hour(const struct leak_report *report, double rate) {
    return rate * 3600 / (double)report->blocks->block_s;
}

/* When a block ends. */
static int64_t end_ns(const struct leak_report *report, size_t block) {
    return blocks_range(report->blocks, block).until_unix_ns;
}

/* ---- text ---- */

static void put_size(double bytes) {
    char text[CLI_VALUE_BYTES];
    fputs(cli_size_text((uint64_t)llround(fabs(bytes)), text), stdout);
}

static void put_signed(double bytes) {
    putchar(bytes < 0 ? '-' : '+');
    put_size(bytes);
}

static void put_name(const char *name) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, true);
    cli_put_name(stdout, readable.failed ? name : sonde_buf_slice(&readable).data);
    sonde_buf_finish(&readable);
}

static void put_curve(const struct leak_report *report, const double *values) {
    double highest = 0;
    for (size_t i = 0; i < report->blocks->count; i++)
        highest = fmax(highest, values[i]);
    for (size_t i = 0; i < report->blocks->count; i++)
        cli_put_bar(stdout, report->blocks->processes[i] > 0,
                    highest > 0 ? values[i] / highest : 0);
}

static void print_begin_of_record(const struct leak_report *report) {
    char first[CLI_VALUE_BYTES];
    if (report->begins_late)
        printf("recorded since %s; memory that was allocated before the heap was sampled is not "
               "seen, so what replaces it seems to grow\n",
               cli_time_text(report->blocks->first_unix_s * NS_PER_S, first));
    if (report->recorded < report->blocks->count)
        printf("%zu of %zu blocks are recorded (· = not)\n", report->recorded,
               report->blocks->count);
}

static void print_heading(const struct leak_report *report) {
    const struct blocks *blocks = report->blocks;
    char from[CLI_VALUE_BYTES], until[CLI_VALUE_BYTES];
    uint32_t processes = blocks->processes[report->last];
    cli_put_name(stdout, blocks->name);
    printf(": live memory from %s until %s, %zu blocks of %" PRId64 " s\n",
           cli_time_text(blocks_range(blocks, 0).from_unix_ns, from),
           cli_time_text(end_ns(report, blocks->count - 1), until), blocks->count, blocks->block_s);
    print_begin_of_record(report);
    put_curve(report, report->sites->totals);
    fputs("  all: ", stdout);
    put_size(report->sites->totals[report->last]);
    printf(" at the end, in %u process%s\n", processes, processes == 1 ? "" : "es");
}

static void print_amount(const struct leak_report *report, const struct leak_row *row) {
    const struct leak_verdict *verdict = &row->verdict;
    fputs("  ", stdout);
    if (verdict->kind == LEAK_GROWS) {
        put_signed(per_hour(report, verdict->rate));
        fputs("/h (", stdout);
        put_signed(per_hour(report, verdict->low));
        fputs(" to ", stdout);
        put_signed(per_hour(report, verdict->high));
        fputs("), ", stdout);
    }
    put_size(row->site->values[report->last]);
    puts(" at the end");
}

static void print_begin(const struct leak_report *report, const struct leak_row *row) {
    char since[CLI_VALUE_BYTES];
    if (row->verdict.kind != LEAK_GROWS)
        return;
    if (row->verdict.since > 1)
        printf("  since %s\n", cli_time_text(end_ns(report, row->verdict.since - 1), since));
    if (row->version) {
        fputs("  version ", stdout);
        cli_put_name(stdout, row->version);
        puts(" appeared then");
    }
}

static void print_row(const struct leak_report *report, const struct leak_row *row) {
    printf("\n%s  ", kinds[row->verdict.kind].word);
    put_name(row->site->name);
    putchar('\n');
    put_curve(report, row->site->values);
    print_amount(report, row);
    print_begin(report, row);
    for (size_t i = 0; i < SITES_CALLERS && row->site->callers[i]; i++) {
        fputs(i ? " < " : "  called by ", stdout);
        put_name(row->site->callers[i]);
    }
    if (row->site->callers[0])
        putchar('\n');
}

void leaks_print_text(const struct leak_report *report) {
    size_t leaks = 0;
    print_heading(report);
    for (size_t i = 0; i < report->count; i++) {
        leaks += report->rows[i].verdict.kind == LEAK_GROWS;
        print_row(report, &report->rows[i]);
    }
    printf("\n%zu of %zu allocation sites grow%s beyond noise and load", leaks,
           report->sites->count, leaks == 1 ? "s" : "");
    fputs("; growth below ", stdout);
    put_size(LEAK_LEAST_SHARE * report->sites->totals[report->last]);
    puts(" is not judged");
    if (report->sites->left_out)
        printf("%" PRIu64 " samples are of sites beyond %u and were not judged\n",
               report->sites->left_out, SITES_MAX);
}

/* ---- JSON ---- */

static void put_string(struct sonde_buf *out, const char *text) {
    sonde_json_string(out, sonde_slice_of(text));
}

static void put_values(struct sonde_buf *out, const struct leak_report *report,
                       const double *values) {
    for (size_t i = 0; i < report->blocks->count; i++)
        sonde_buf_printf(out, "%s%.0f", i ? "," : "", values[i]);
}

static void put_row(struct sonde_buf *out, const struct leak_report *report,
                    const struct leak_row *row) {
    const struct leak_verdict *verdict = &row->verdict;
    sonde_buf_puts(out, "{\"site\":");
    put_string(out, row->site->name);
    sonde_buf_printf(out,
                     ",\"verdict\":\"%s\",\"bytesPerHour\":%.0f,\"low\":%.0f,\"high\":%.0f,"
                     "\"sinceUnixS\":%" PRId64 ",\"version\":",
                     kinds[verdict->kind].json, per_hour(report, verdict->rate),
                     per_hour(report, verdict->low), per_hour(report, verdict->high),
                     (int64_t)(end_ns(report, verdict->since - 1) / NS_PER_S));
    put_string(out, row->version ? row->version : "");
    sonde_buf_puts(out, ",\"callers\":[");
    for (size_t i = 0; i < SITES_CALLERS && row->site->callers[i]; i++) {
        sonde_buf_puts(out, i ? "," : "");
        put_string(out, row->site->callers[i]);
    }
    sonde_buf_puts(out, "],\"bytes\":[");
    put_values(out, report, row->site->values);
    sonde_buf_puts(out, "]}");
}

sonde_err leaks_print_json(const struct leak_report *report) {
    const struct blocks *blocks = report->blocks;
    struct sonde_buf out = {0};
    sonde_buf_puts(&out, "{\"service\":");
    put_string(&out, blocks->name);
    sonde_buf_printf(&out,
                     ",\"fromUnixS\":%" PRId64 ",\"blockS\":%" PRId64
                     ",\"firstRecordUnixS\":%" PRId64
                     ",\"recordedBlocks\":%zu,\"judgedSites\":%zu,\"samplesNotJudged\":%" PRIu64,
                     blocks->from_unix_s, blocks->block_s, blocks->first_unix_s, report->recorded,
                     report->sites->count, report->sites->left_out);
    sonde_buf_puts(&out, ",\"processes\":[");
    for (size_t i = 0; i < blocks->count; i++)
        sonde_buf_printf(&out, "%s%u", i ? "," : "", blocks->processes[i]);
    sonde_buf_puts(&out, "],\"bytes\":[");
    put_values(&out, report, report->sites->totals);
    sonde_buf_puts(&out, "],\"sites\":[");
    for (size_t i = 0; i < report->count; i++) {
        sonde_buf_puts(&out, i ? "," : "");
        put_row(&out, report, &report->rows[i]);
    }
    sonde_buf_puts(&out, "]}\n");
    sonde_err err = out.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
    if (!err)
        fwrite(out.data, 1, out.len, stdout);
    sonde_buf_finish(&out);
    return err;
}
