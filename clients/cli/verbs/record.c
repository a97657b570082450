/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/json.h"
#include "clients/cli/run/record_command.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

#define MAX_SECONDS 3600
#define MAX_TITLE   200

struct settings {
    struct capture_settings capture;
    struct service_settings service;
    const char *output, *format;
    bool json;
    struct record_command *command; /* NULL: a running process is recorded */
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
    sonde_buf_puts(&text, ",\"clockNote\":");
    json_text(&text, result->clock_note);
    sonde_buf_printf(&text, ",\"frequencyHz\":%.1f,\"budgetNote\":", result->frequency_hz);
    json_text(&text, result->budget_note);
    if (result->capture_id)
        sonde_buf_printf(&text, ",\"captureId\":\"%llu\"", (unsigned long long)result->capture_id);
    sonde_buf_puts(&text, "}");
    if (!text.failed)
        puts(text.data);
    sonde_buf_finish(&text);
}

/* Takes the capture and writes the file. */
static sonde_err record(const struct settings *settings, const char *target,
                        const struct sonde_format_info *format, struct sonde_diag *diag) {
    struct service service = {.signals = -1};
    struct output output = {.fd = -1};
    struct capture_result result = {0};
    sonde_err err = output_open(&output, settings->output, diag);
    if (!err)
        err = service_open_or_start(&service, &settings->service, target || settings->capture.all,
                                    diag);
    if (!err && settings->command)
        record_command_watch(settings->command, &service);
    if (!err)
        err = capture_run(&service, target, &settings->capture, format->format, &output, &result,
                          diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    service_close(&service);
    if (err == SONDE_CANCELLED)
        err =
            sonde_fail(diag, err, "interrupted; the capture was cancelled and nothing was written");
    if (settings->command)
        result.target_gone = false; /* it ends with the command */
    if (!err && settings->json)
        print_json(settings->output, &result);
    else if (!err)
        capture_print_summary(settings->output, &result);
    return err;
}

static int record_target(const struct settings *settings, const char *target,
                         const struct sonde_format_info *format) {
    struct sonde_diag diag = {0};
    sonde_err err = record(settings, target, format, &diag);
    return err ? cli_fail(&verb_record, err, &diag) : 0;
}

/* "make -j8"; what does not fit is left out. */
static const char *join_words(char *const *argv, char title[MAX_TITLE + 1]) {
    size_t len = 0;
    title[0] = 0;
    for (; *argv && len + 1 + strlen(*argv) <= MAX_TITLE; argv++)
        len += (size_t)snprintf(title + len, MAX_TITLE + 1 - len, "%s%s", len ? " " : "", *argv);
    return title;
}

/* A capture may last an hour; a command that runs longer goes on without one. */
static int record_started(struct settings *settings, char **argv,
                          const struct sonde_format_info *format) {
    struct record_command command;
    struct sonde_diag diag = {0};
    char pid[16], title[MAX_TITLE + 1];
    int status;
    sonde_err err = record_command_fork(&command, argv, &status, &diag);
    if (err) {
        (void)cli_fail(&verb_record, err, &diag);
        return status;
    }
    snprintf(pid, sizeof pid, "%d", (int)command.pid);
    settings->command = &command;
    settings->service.mask = &command.supervisor.mask;
    settings->capture.on_begin = record_command_go;
    settings->capture.context = &command;
    settings->capture.all = true;
    if (!settings->capture.title)
        settings->capture.title = join_words(argv, title);
    if (settings->capture.seconds == 0)
        settings->capture.seconds = MAX_SECONDS;
    err = record(settings, pid, format, &diag);
    if (err)
        (void)cli_fail(&verb_record, err, &diag);
    return record_command_finish(&command);
}

/* Cuts the command off the arguments. NULL if there is no "--". */
static char **take_command(int *argc, char **argv) {
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            *argc = i;
            argv[i] = NULL;
            return argv + i + 1;
        }
    return NULL;
}

static int on_record(int argc, char **argv) {
    struct settings settings = {.capture = CAPTURE_DEFAULTS, .output = "sonde.svg"};
    int status;
    char **command = take_command(&argc, argv);
    if (!cli_options(&verb_record, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2 || (command && argc > 1))
        return cli_usage(&verb_record, "unexpected argument \"%s\"", argv[command ? 1 : 2]);
    if (command && (!command[0] || settings.capture.all))
        return cli_usage(&verb_record, command[0] ? "--all records running processes; without it "
                                                    "COMMAND and all that it starts are recorded"
                                                  : "no command after --");
    const struct sonde_format_info *format =
        format_choose(settings.format, settings.output, SONDE_OF_CPU);
    if (!format)
        return format_refuse(&verb_record, settings.format, settings.output, SONDE_OF_CPU);
    return command ? record_started(&settings, command, format)
                   : record_target(&settings, argv[1], format);
}

static const struct sonde_option table[] = {
    CAPTURE_OPTIONS(struct settings, capture),
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension, - for stdout (default sonde.svg)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"locks", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, capture.locks), 0, 0,
     "with wall and off-cpu: label waits with the lock and its owner"},
    {"keep", 'k', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, capture.keep), 0, 0,
     "also save the capture in sonded (see `sonde captures`)"},
    {"note", 0, "TEXT", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, capture.note), 0, 0,
     "with --keep: a note to show in the list"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print a summary as JSON on stdout"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde record PID | NAME | --all [PID | NAME] | -- COMMAND... [-d SECONDS] [-o FILE]",
    .about = "Records a CPU profile of any process, or of COMMAND until it ends. Ctrl-C ends it "
             "early and\n"
             "keeps it. Root samples every process, others their own (`sonde doctor` shows which).",
    .examples = "  sonde record 4711 -o flame.svg\n"
                "  sonde record redis-server -d 30 -F 999 -o redis.pb.gz\n"
                "  sonde record 4711 --event page-faults -o faults.svg\n"
                "  sonde record -o build.svg -- make -j8\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_record = {"record", "record a CPU profile to a file", on_record, &options};
