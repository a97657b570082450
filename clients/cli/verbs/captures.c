/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde captures`: lists the captures saved in sonded, writes one of them, or a part of its time,
 * to a file, or prints how much CPU time it used when. */
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define FETCH_TIMEOUT_MS 120000
#define MAX_SECONDS      4000000 /* in milliseconds they fit into 32 bits */
#define BAR_COLUMNS      40
#define LEAST_ROW        10 /* a last row below a tenth of one belongs to the one before */
#define SAVED            (SONDE_OF_CPU | SONDE_OF_ALLOCATIONS)

struct settings {
    struct service_settings service;
    const char *target, *output, *format, *type;
    bool json, timeline;
    struct cli_threads threads;
    bool hide_idle;
    double from_s, until_s; /* since the begin of the capture; until 0 = to its end */
    uint64_t bin_ms;
};

static uint32_t milliseconds(double seconds) {
    return (uint32_t)(seconds * 1000 + 0.5);
}

/* ---- The list ---- */

static void print_capture(const Sonde__V1__Capture *capture) {
    char hz[16] = "-", started[CLI_VALUE_BYTES];
    if (capture->frequency_hz)
        snprintf(hz, sizeof hz, "%u", capture->frequency_hz);
    printf("%6" PRIu64 "  %-19s  %-7s %8.1f %6s %9" PRIu64 " %8" PRIu64 " %8d  ", capture->id,
           cli_time_text(capture->start_unix_ns, started), capture->kind,
           capture->duration_ms / 1000.0, hz, capture->samples, capture->dropped, capture->pid);
    cli_put_name(stdout, capture->target);
    if (capture->note[0]) {
        fputs("  ", stdout);
        cli_put_name(stdout, capture->note);
    }
    putchar('\n');
}

static void print_list(const Sonde__V1__ListCapturesResponse *list) {
    if (list->n_captures == 0)
        puts("no saved captures; save one with `sonde record --keep`");
    else
        printf("%6s  %-19s  %-7s %8s %6s %9s %8s %8s  %s\n", "NUMBER", "STARTED", "KIND", "SECONDS",
               "HZ", "SAMPLES", "DROPPED", "PID", "TARGET  NOTE");
    for (size_t i = 0; i < list->n_captures; i++)
        print_capture(list->captures[i]);
}

static sonde_err ask_list(struct service *service, const char *target, ProtobufCMessage **answer,
                          struct sonde_diag *diag) {
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector;
    service_select(target, &selector);
    request.target = &selector;
    return service_call(service, &client_list_captures, &request.base, answer, diag);
}

static sonde_err list(struct service *service, const struct settings *settings,
                      struct sonde_diag *diag) {
    ProtobufCMessage *answer;
    sonde_err err = ask_list(service, settings->target, &answer, diag);
    if (err)
        return err;
    if (settings->json)
        json_print(answer);
    else
        print_list((const void *)answer);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- One capture ---- */

/* Nothing is saved here: the number is that of the capture which was asked for. */
static void print_fetched(const struct settings *settings, uint64_t id, const char *path,
                          struct capture_result *result) {
    bool is_part = settings->from_s > 0 || settings->until_s > 0;
    result->capture_id = 0;
    capture_print_summary(path, result);
    if (is_part && settings->until_s > 0)
        fprintf(stderr, "seconds %g to %g of capture %" PRIu64 "\n", settings->from_s,
                settings->until_s, id);
    else if (is_part)
        fprintf(stderr, "seconds %g to the end of capture %" PRIu64 "\n", settings->from_s, id);
}

static sonde_err fetch(struct service *service, const struct settings *settings, uint64_t id,
                       enum sonde_format format, const char *path, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureRequest request = SONDE__V1__GET_CAPTURE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct output output;
    struct capture_result result = {0};
    rendering.format = (Sonde__V1__Format)format;
    rendering.split_threads = cli_splits_threads(&settings->threads);
    rendering.hide_idle = settings->hide_idle;
    request.id = id;
    request.rendering = &rendering;
    request.from_ms = milliseconds(settings->from_s);
    request.until_ms = milliseconds(settings->until_s);
    if (settings->type)
        request.sample_type = (char *)settings->type;
    sonde_err err = output_open(&output, path, diag);
    if (!err)
        err = capture_receive(service, &client_get_capture, &request.base, FETCH_TIMEOUT_MS,
                              &output, &result, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    if (!err && strcmp(path, "-") != 0)
        print_fetched(settings, id, path, &result);
    return err;
}

static int get(const struct settings *settings, const char *word) {
    const char *path = settings->output ? settings->output : "sonde.svg";
    const struct sonde_format_info *format = format_choose(settings->format, path, SAVED);
    struct sonde_diag diag = {0};
    struct service service;
    uint64_t id;
    if (!capture_read_number(word, &id))
        return cli_usage(&verb_captures, "\"%.60s\" is not a capture number", word);
    if (!format)
        return format_refuse(&verb_captures, settings->format, path, SAVED);
    sonde_err err = service_open_or_start(&service, &settings->service, true, &diag);
    if (!err)
        err = fetch(&service, settings, id, format->format, path, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_captures, err, &diag) : 0;
}

/* ---- Its timeline ---- */

/* Where the timeline ends: with the capture, or at --until. */
static sonde_err find_end(struct service *service, const struct settings *settings, uint64_t id,
                          double *until_ms, struct sonde_diag *diag) {
    ProtobufCMessage *answer;
    sonde_err err = ask_list(service, NULL, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__ListCapturesResponse *list = (const void *)answer;
    *until_ms = settings->until_s > 0 ? settings->until_s * 1000 : INFINITY;
    for (size_t i = 0; i < list->n_captures; i++)
        if (list->captures[i]->id == id && list->captures[i]->duration_ms < *until_ms)
            *until_ms = list->captures[i]->duration_ms;
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* The rows of a timeline. A capture ends some milliseconds late, and these belong to the last row:
 * they are not a row of their own that looks idle. */
struct timeline {
    const int64_t *values; /* nanoseconds */
    size_t value_count, row_count;
    double from_ms, bin_ms, until_ms;
};

static double begin_of(const struct timeline *timeline, size_t row) {
    return timeline->from_ms + (double)row * timeline->bin_ms;
}

static struct timeline read_timeline(const Sonde__V1__CaptureTimeline *from, double until_ms) {
    struct timeline timeline = {.values = from->value,
                                .value_count = from->n_value,
                                .row_count = from->n_value,
                                .from_ms = from->from_ms,
                                .bin_ms = from->bin_ms,
                                .until_ms = until_ms};
    double rest_ms = until_ms - begin_of(&timeline, timeline.row_count - 1);
    if (timeline.row_count > 1 && rest_ms > 0 && rest_ms < timeline.bin_ms / LEAST_ROW)
        timeline.row_count--;
    return timeline;
}

static double percent_of(const struct timeline *timeline, size_t row) {
    double ns = (double)timeline->values[row], length_ms = timeline->bin_ms;
    double rest_ms = timeline->until_ms - begin_of(timeline, row);
    if (row + 1 == timeline->row_count && rest_ms > 0 &&
        rest_ms < length_ms + length_ms / LEAST_ROW)
        length_ms = rest_ms;
    for (size_t i = row + 1; row + 1 == timeline->row_count && i < timeline->value_count; i++)
        ns += (double)timeline->values[i];
    return length_ms > 0 ? ns / (length_ms * 1e4) : 0;
}

static void print_row(double second, double percent, double highest) {
    printf("%9.2f %8.1f", second, percent);
    int bars = highest > 0 ? (int)(percent / highest * BAR_COLUMNS + 0.5) : 0;
    fputs(bars > 0 ? "  " : "", stdout);
    for (int i = 0; i < bars; i++)
        fputs("█", stdout);
    putchar('\n');
}

static void print_timeline(const struct timeline *timeline) {
    double highest = 0;
    for (size_t i = 0; i < timeline->row_count; i++)
        highest = fmax(highest, percent_of(timeline, i));
    printf("%9s %8s\n", "SECOND", "CPU %");
    for (size_t i = 0; i < timeline->row_count; i++)
        print_row(begin_of(timeline, i) / 1000, percent_of(timeline, i), highest);
}

static sonde_err fetch_timeline(struct service *service, const struct settings *settings,
                                uint64_t id, struct sonde_diag *diag) {
    Sonde__V1__GetCaptureTimelineRequest request = SONDE__V1__GET_CAPTURE_TIMELINE_REQUEST__INIT;
    ProtobufCMessage *answer;
    double until_ms = INFINITY;
    request.id = id;
    request.bin_ms = (uint32_t)settings->bin_ms;
    request.from_ms = milliseconds(settings->from_s);
    request.until_ms = milliseconds(settings->until_s);
    sonde_err err =
        service_call(service, &client_get_capture_timeline, &request.base, &answer, diag);
    if (err)
        return err;
    if (settings->json)
        json_print(answer);
    else
        err = find_end(service, settings, id, &until_ms, diag);
    if (!err && !settings->json) {
        const struct timeline timeline = read_timeline((const void *)answer, until_ms);
        print_timeline(&timeline);
    }
    protobuf_c_message_free_unpacked(answer, NULL);
    return err;
}

static int show_timeline(const struct settings *settings, const char *word) {
    struct sonde_diag diag = {0};
    struct service service;
    uint64_t id;
    if (!capture_read_number(word, &id))
        return cli_usage(&verb_captures, "\"%.60s\" is not a capture number", word);
    sonde_err err = service_open_or_start(&service, &settings->service, true, &diag);
    if (!err)
        err = fetch_timeline(&service, settings, id, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_captures, err, &diag) : 0;
}

static int on_captures(int argc, char **argv) {
    struct settings settings = {.bin_ms = 1000};
    struct sonde_diag diag = {0};
    struct service service;
    int status;
    if (!cli_options(&verb_captures, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_captures, "unexpected argument \"%s\"", argv[2]);
    if (argc == 2)
        return settings.timeline ? show_timeline(&settings, argv[1]) : get(&settings, argv[1]);
    if (settings.timeline || settings.from_s > 0 || settings.until_s > 0)
        return cli_usage(&verb_captures, "--timeline, --from and --until need a capture number");
    sonde_err err = service_open_or_start(&service, &settings.service, true, &diag);
    if (!err)
        err = list(&service, &settings, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_captures, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    {"target", 't', "TARGET", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, target), 0, 0,
     "only captures of the process with this name or pid, running or not"},
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension, - for stdout (default sonde.svg)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"type", 0, "TYPE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, type), 0, 0,
     "sample type to show in pictures and text"},
    HIDE_IDLE_OPTION(struct settings, hide_idle),
    THREADS_OPTIONS(struct settings, threads),
    {"from", 0, "SECONDS", NULL, SONDE_OPTION_SECONDS, offsetof(struct settings, from_s), 0,
     MAX_SECONDS, "only the part from this many seconds after the begin"},
    {"until", 0, "SECONDS", NULL, SONDE_OPTION_SECONDS, offsetof(struct settings, until_s), 0,
     MAX_SECONDS, "only the part until then (default 0 = the end)"},
    {"timeline", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, timeline), 0, 0,
     "print the CPU usage over the capture's time"},
    {"bin", 0, "MS", NULL, SONDE_OPTION_MILLISECONDS, offsetof(struct settings, bin_ms), 20,
     3600000, "milliseconds per line of --timeline (default 1000)"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print the list or the timeline as JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde captures [NUMBER] [-o FILE]",
    .about = "Lists the captures saved by the service, or writes one or a part of it to a file.",
    .examples = "  sonde captures\n"
                "  sonde captures 7 --timeline --bin 200\n"
                "  sonde captures 7 --from 2 --until 3.5 -o part.svg\n"
                "  sonde captures --target redis-server --json\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_captures = {"captures", "list saved captures, or download one", on_captures,
                                   &options};
