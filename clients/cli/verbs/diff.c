/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde diff`: shows what changed between two profiles, each a file or the number of a saved
 * capture, or between two ranges of the history. Captures are downloaded as pprof and compared
 * here, so a capture can be compared with a file. Ranges are compared by the service. */
#include "api/draw/diff.h"
#include "api/draw/compare/comparison.h"
#include "api/draw/names/readable_name.h"
#include "api/profile/pprof/pprof.h"
#include "clients/cli/formats.h"
#include "clients/cli/history.h"
#include "clients/cli/verbs/source/source.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_ROWS      30
#define MAX_REPORTED      10
#define STATUS_ABOVE      10 /* of --fail-above; 1 to 4 are errors */
#define FETCH_TIMEOUT_MS  120000
#define MAX_PROFILE_BYTES (2048ull << 20)

struct settings {
    struct service_settings service;
    const char *output, *format, *title, *type;
    const char *from, *until, *base_from, *base_until, *base_selector, *event, *selector;
    bool growth_only, normalize, json, full_names;
    uint64_t rows;
    double fail_above; /* percent of the total; negative = never fail */
    struct cli_threads threads;
};

/* ---- A capture ---- */

struct side {
    struct sonde_profile *profile;
    struct sonde_time_parts parts; /* of captures with time bins */
};

struct answer {
    struct sonde_buf bytes;
    uint64_t timeline_bytes; /* at the end */
};

static bool on_event(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct answer *answer = context;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&answer->bytes, event->chunk.data, event->chunk.len);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT && event->result->capture)
        answer->timeline_bytes = event->result->capture->timeline_bytes;
    return !answer->bytes.failed;
}

/* An older sonded does not send the time bins. The capture is one block without them. */
static sonde_err read_answer(const struct answer *answer, struct side *side,
                             struct sonde_diag *diag) {
    struct sonde_slice bytes = sonde_buf_slice(&answer->bytes);
    struct sonde_timeline *timeline;
    sonde_err err = sonde_pprof_read(bytes, MAX_PROFILE_BYTES, &side->profile, diag);
    if (err || answer->timeline_bytes == 0 || answer->timeline_bytes >= bytes.len)
        return err;
    const struct sonde_slice file = {bytes.data + bytes.len - answer->timeline_bytes,
                                     answer->timeline_bytes};
    if (sonde_timeline_read(file, side->profile, &timeline, NULL))
        return SONDE_OK;
    sonde_profile_set_timeline(side->profile, timeline);
    return sonde_time_parts_cut(side->profile, (struct sonde_timeline_range){0, 0}, &side->parts,
                                diag);
}

static sonde_err fetch(const struct settings *settings, uint64_t id, struct side *side,
                       struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct answer answer = {.bytes = {.limit = MAX_PROFILE_BYTES}};
    struct service service;
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.id = id;
    request.rendering = &rendering;
    request.with_timeline = true;
    sonde_err err = service_open_or_start(&service, &settings->service, true, diag);
    if (!err)
        err = service_stream(&service, &client_get_capture, &request.base, FETCH_TIMEOUT_MS,
                             on_event, &answer, diag);
    service_close(&service);
    if (!err && answer.bytes.failed)
        err =
            sonde_fail(diag, SONDE_TOO_LARGE, "capture %llu is too large", (unsigned long long)id);
    if (!err)
        err = read_answer(&answer, side, diag);
    sonde_buf_finish(&answer.bytes);
    return err;
}

static sonde_err read_side(const struct settings *settings, const char *word, struct side *side,
                           struct sonde_diag *diag) {
    uint64_t id;
    return capture_read_number(word, &id) ? fetch(settings, id, side, diag)
                                          : source_read(word, &side->profile, diag);
}

static void side_finish(struct side *side) {
    sonde_time_parts_finish(&side->parts);
    sonde_profile_destroy(side->profile);
}

/* ---- The comparison ---- */

/* "capture 6", or the file as it was given. */
static const char *name_profile(const char *word, char name[32]) {
    uint64_t id;
    if (!capture_read_number(word, &id))
        return word;
    snprintf(name, 32, "capture %llu", (unsigned long long)id);
    return name;
}

static sonde_err draw(const struct settings *settings, char *const *words, const struct side *base,
                      const struct side *now, enum sonde_format format, const char *path,
                      struct sonde_diag *diag) {
    char names[2][32];
    const struct sonde_draw_diff diff = {.base = base->profile,
                                         .now = now->profile,
                                         .base_parts = &base->parts,
                                         .now_parts = &now->parts,
                                         .base_name = name_profile(words[0], names[0]),
                                         .now_name = name_profile(words[1], names[1]),
                                         .growth_only = settings->growth_only,
                                         .normalise = settings->normalize};
    const struct sonde_draw_options options = {.title = settings->title,
                                               .type = settings->type,
                                               .max_rows = settings->rows,
                                               .max_columns = output_columns(path),
                                               .full_names = settings->full_names,
                                               .split_threads =
                                                   cli_splits_threads(&settings->threads)};
    struct sonde_buf drawn = {0};
    struct output output = {.fd = -1};
    sonde_err err = sonde_draw_difference(&diff, format, &options, &drawn, diag);
    if (!err)
        err = output_open(&output, path, diag);
    if (!err)
        err = output_write(&output, drawn.data, drawn.len, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    sonde_buf_finish(&drawn);
    return err;
}

/* ---- --fail-above ---- */

static void print_name(const char *name) {
    struct sonde_buf text = {0};
    draw_readable_name(&text, name, true);
    cli_put_whole_name(stderr, sonde_buf_slice(&text).data);
    sonde_buf_finish(&text);
}

/* Prints the functions that certainly grew by more. Returns the exit status. */
static int judge(const struct sonde_comparison *comparison, double percent) {
    size_t count = 0;
    if (!comparison->has_verdicts)
        fprintf(stderr, "sonde diff: nothing is certain, because the profiles do not have numbers "
                        "of samples\n");
    for (size_t i = 0; i < comparison->function_count; i++) {
        const struct sonde_comparison_function *function = &comparison->functions[i];
        if (!sonde_comparison_exceeds(comparison, function, percent / 100))
            continue;
        if (count++ < MAX_REPORTED) {
            const struct verdict_change *change = &function->total[comparison->measure];
            double whole = sonde_comparison_whole(comparison);
            fputs("sonde diff: ", stderr);
            print_name(function->name);
            fprintf(stderr, " grew by %.1f to %.1f %% of the total\n", 100 * change->low / whole,
                    100 * change->high / whole);
        }
    }
    if (count > MAX_REPORTED)
        fprintf(stderr, "sonde diff: %zu more functions\n", count - MAX_REPORTED);
    return count ? STATUS_ABOVE : 0;
}

static sonde_err check_limit(const struct settings *settings, const struct side *base,
                             const struct side *now, int *status, struct sonde_diag *diag) {
    const struct sonde_profile *const wholes[] = {base->profile, now->profile};
    const struct sonde_blocks_side sides[] = {sonde_time_parts_side(&base->parts, &wholes[0], 1),
                                              sonde_time_parts_side(&now->parts, &wholes[1], 1)};
    const struct sonde_draw_diff diff = {.now = now->profile, .normalise = settings->normalize};
    const struct sonde_comparison_options options = {
        .type = settings->type, .measure = sonde_draw_diff_measure(&diff, settings->type)};
    struct sonde_comparison *comparison;
    if (settings->fail_above < 0)
        return SONDE_OK;
    sonde_err err = sonde_comparison_create(sides, &options, &comparison, diag);
    if (err)
        return err;
    *status = judge(comparison, settings->fail_above);
    sonde_comparison_destroy(comparison);
    return SONDE_OK;
}

static bool is_profile_argument(const char *word) {
    uint64_t id;
    return capture_read_number(word, &id) || source_is_file(word);
}

static int diff_profiles(int argc, char **argv, const struct settings *settings,
                         const struct sonde_format_info *format, const char *path) {
    struct sonde_diag diag = {0};
    struct side base = {.profile = NULL}, now = {.profile = NULL};
    int status = 0;
    if (argc != 3)
        return cli_usage(&verb_diff, "two profiles needed: BASE and NEW");
    for (int i = 1; i < 3; i++)
        if (!is_profile_argument(argv[i]))
            return cli_usage(&verb_diff,
                             "\"%.60s\" is neither a capture number (see `sonde captures`) nor a "
                             "file name with a / or an extension such as .pb.gz",
                             argv[i]);
    sonde_err err = read_side(settings, argv[1], &base, &diag);
    if (!err)
        err = read_side(settings, argv[2], &now, &diag);
    if (!err)
        err = draw(settings, argv + 1, &base, &now, format->format, path, &diag);
    if (!err)
        err = check_limit(settings, &base, &now, &status, &diag);
    side_finish(&base);
    side_finish(&now);
    return err ? cli_fail(&verb_diff, err, &diag) : status;
}

/* ---- Ranges of the history ---- */

/* The base is as long as the other range unless --base-until is there. With --base-selector alone,
 * it is the same range. */
static sonde_err read_ranges(const struct settings *settings, struct history_range *base,
                             struct history_range *range, struct sonde_diag *diag) {
    int64_t now_ns = history_now_ns();
    sonde_err err =
        history_read_range("from", settings->from, "until", settings->until, now_ns, range, diag);
    *base = *range;
    if (err || !settings->base_from)
        return err;
    err = history_read_range("base-from", settings->base_from, "base-until", settings->base_until,
                             now_ns, base, diag);
    if (!err && !settings->base_until)
        base->until_unix_ns = base->from_unix_ns + (range->until_unix_ns - range->from_unix_ns);
    return err;
}

static sonde_err query(const struct settings *settings, const char *name,
                       const struct history_range *base_range, const struct history_range *range,
                       enum sonde_format format, const char *path, struct sonde_diag *diag) {
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct service service;
    const char *base_selector =
        settings->base_selector ? settings->base_selector : settings->selector;
    history_select(&base, name, settings->event, base_selector, base_range);
    history_select(&selection, name, settings->event, settings->selector, range);
    rendering.format = (Sonde__V1__Format)format;
    rendering.max_rows = (uint32_t)settings->rows;
    rendering.full_names = settings->full_names;
    rendering.split_threads = cli_splits_threads(&settings->threads);
    if (settings->title)
        rendering.title = (char *)settings->title;
    request.base_selection = &base;
    request.selection = &selection;
    request.rendering = &rendering;
    request.growth_only = settings->growth_only;
    sonde_err err = service_open(&service, &settings->service, diag);
    if (!err)
        err = history_fetch(&service, &client_query_diff, &request.base, range, path, diag);
    service_close(&service);
    return err;
}

static int diff_ranges(int argc, char **argv, const struct settings *settings,
                       const struct sonde_format_info *format, const char *path) {
    struct history_range base, range;
    struct sonde_diag diag = {0};
    if (argc > 2)
        return cli_usage(&verb_diff,
                         "with --base-from or --base-selector, one SERVICE or none is compared");
    if (settings->normalize || settings->type)
        return cli_usage(&verb_diff, "ranges of the history are normalized and have one type; "
                                     "--normalize and --type are for files and captures");
    if (settings->fail_above >= 0)
        return cli_usage(&verb_diff, "--fail-above is for files and captures");
    if (read_ranges(settings, &base, &range, &diag))
        return cli_usage(&verb_diff, "%s", diag.text);
    sonde_err err =
        query(settings, argc > 1 ? argv[1] : "", &base, &range, format->format, path, &diag);
    return err ? cli_fail(&verb_diff, err, &diag) : 0;
}

static int on_diff(int argc, char **argv) {
    struct settings settings = {.rows = DEFAULT_ROWS, .fail_above = -1};
    int status;
    if (!cli_options(&verb_diff, &settings, false, &argc, argv, &status))
        return status;
    const char *path = settings.output ? settings.output : "-";
    if (settings.json && settings.format)
        return cli_usage(&verb_diff, "--json is --format changes: leave one out");
    const struct sonde_format_info *format =
        settings.json ? sonde_format_info(SONDE_FORMAT_CHANGES)
                      : history_choose_format(settings.format, settings.output, FORMATS_OF_TWO);
    if (!format)
        return format_refuse(&verb_diff, settings.format, path, FORMATS_OF_TWO);
    if (settings.base_from || settings.base_selector)
        return diff_ranges(argc, argv, &settings, format, path);
    if (settings.from || settings.until || settings.base_until || settings.event ||
        settings.selector)
        return cli_usage(&verb_diff, "to compare ranges of the history, pass --base-from or "
                                     "--base-selector");
    return diff_profiles(argc, argv, &settings, format, path);
}

static const struct sonde_option table[] = {
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension (default: a table on stdout)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"growth-only", 'g', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, growth_only), 0,
     0, "show only what grew"},
    {"rows", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, rows), 0, 1e9,
     "number of functions in a table (default 30; 0: all)"},
    {"full-names", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, full_names), 0, 0,
     "print C++ names with all arguments, whatever the terminal's width"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print every function's change and its interval as JSON"},
    {"fail-above", 0, "PERCENT", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, fail_above),
     0, 1e6, "exit with 10 if a function's share certainly grew by more"},
    {"normalize", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, normalize), 0, 0,
     "scale NEW to the total of BASE before comparing"},
    {"type", 't', "TYPE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, type), 0, 0,
     "sample type to show in pictures and text"},
    {"title", 0, "TEXT", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, title), 0, 0,
     "title of the picture"},
    THREADS_OPTIONS(struct settings, threads),
    HISTORY_OPTION(struct settings, "base-from", "TIME", base_from,
                   "compare ranges of the history: begin of BASE, for example -25h"),
    HISTORY_OPTION(struct settings, "base-until", "TIME", base_until,
                   "end of BASE (default: as long as NEW)"),
    HISTORY_OPTION(struct settings, "base-selector", "TEXT", base_selector,
                   "condition for BASE: \"version = '1.1'\" (default: --selector)"),
    HISTORY_OPTIONS(struct settings),
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage =
        "sonde diff BASE NEW [-o FILE] | [SERVICE] --base-from TIME|--base-selector TEXT [-o FILE]",
    .about =
        "Shows what changed between two profiles, each a file (pprof, perf.data) or the number "
        "of a\nsaved capture, or between two ranges of the history.",
    .examples = "  sonde diff before.pb.gz after.pb.gz --fail-above 3 --json > changes.json\n"
                "  sonde diff 6 7 -o diff.svg                red: grew; blue: shrank; grey: noise\n"
                "  sonde diff redis-server --base-from -25h  the last hour and the same of "
                "yesterday\n"
                "  sonde diff shop --from -1d --selector \"version = '1.2'\" --base-selector "
                "\"version = '1.1'\"\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_diff = {"diff", "show what changed between two profiles", on_diff, &options};
