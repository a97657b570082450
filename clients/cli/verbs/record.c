/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

struct settings {
    struct capture_settings capture;
    struct service_settings service;
    const char *output, *format;
    bool json;
};

static void print_json(const char *path, const struct capture_result *result) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "{\"file\":");
    json_text(&text, path);
    sonde_buf_printf(&text, ",\"samples\":%llu,\"dropped\":%llu,\"truncated\":%llu",
                     (unsigned long long)result->samples, (unsigned long long)result->dropped,
                     (unsigned long long)result->truncated);
    sonde_buf_printf(&text, ",\"durationMs\":%u,\"targetGone\":%s,\"clock\":", result->duration_ms,
                     result->target_gone ? "true" : "false");
    json_text(&text, result->clock);
    sonde_buf_printf(&text, ",\"frequencyHz\":%.1f,\"budgetNote\":", result->frequency_hz);
    json_text(&text, result->budget_note);
    if (result->capture_id)
        sonde_buf_printf(&text, ",\"captureId\":\"%llu\"", (unsigned long long)result->capture_id);
    sonde_buf_puts(&text, "}");
    if (!text.failed)
        puts(text.data);
    sonde_buf_finish(&text);
}

static int record(const struct settings *settings, const char *target,
                  const struct sonde_format_info *format) {
    struct sonde_diag diag = {0};
    struct service service;
    struct output output = {.fd = -1};
    struct capture_result result;
    sonde_err err = service_open(&service, &settings->service, &diag);
    if (!err)
        err = output_open(&output, settings->output, &diag);
    if (!err)
        err = capture_run(&service, target, &settings->capture, format->format, &output, &result,
                          &diag);
    if (!err)
        err = output_commit(&output, &diag);
    output_finish(&output);
    service_close(&service);
    if (err == SONDE_CANCELLED)
        err = sonde_fail(&diag, err,
                         "interrupted; the capture was cancelled and nothing was written");
    if (err)
        return cli_fail(&verb_record, err, &diag);
    if (settings->json)
        print_json(settings->output, &result);
    else
        capture_print_summary(settings->output, &result);
    return 0;
}

static int on_record(int argc, char **argv) {
    struct settings settings = {.capture = CAPTURE_DEFAULTS, .output = "sonde.svg"};
    int status;
    if (!cli_options(&verb_record, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_record, "unexpected argument \"%s\"", argv[2]);
    const struct sonde_format_info *format =
        format_choose(settings.format, settings.output, SONDE_OF_CPU);
    if (!format)
        return format_refuse(&verb_record, settings.format, settings.output, SONDE_OF_CPU);
    return record(&settings, argv[1], format);
}

static const struct sonde_option table[] = {
    CAPTURE_OPTIONS(struct settings, capture),
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension, - for stdout (default sonde.svg)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"keep", 'k', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, capture.keep), 0, 0,
     "also save the capture in sonded (see `sonde captures`)"},
    {"note", 0, "TEXT", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, capture.note), 0, 0,
     "with --keep: a note to show in the list"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print a summary as JSON on stdout"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde record [TARGET] [-d SECONDS] [-F HZ] [-o FILE]",
    .about = "Records a CPU profile of a target to a file. Ctrl-C cancels the capture in the "
             "target, too.",
    .examples = "  sonde record -o flame.svg\n"
                "  sonde record redis-server -d 30 -F 999 -o redis.pb.gz\n"
                "  sonde record 4711 --mode wall -o waits.collapsed\n"
                "  sonde record -o - --format top\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_record = {"record", "record a CPU profile to a file", on_record, &options};
