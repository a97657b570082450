/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/capture.h"

#include "api/clock_name.h"
#include "api/draw/names/readable_name.h"
#include "api/draw/short_name.h"
#include "api/profile/event.h"
#include "clients/cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SECONDS   10
#define RECORDED_WINDOW_S 10 /* recorders' windows */
#define LEAST_NAME        12
#define RENDER_TIMEOUT_MS 120000 /* for the service to render the result after the capture */

struct capture {
    struct output *output;
    struct capture_result *result;
    uint64_t expected, received;
    bool on_terminal, line_shown;
    const struct capture_settings *settings; /* NULL: not a CPU capture */
    bool has_begun;
    sonde_err err;
    struct sonde_diag *diag;
};

/* Formats 1188 as "1,188". */
static const char *group_digits(uint64_t number, char text[32]) {
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, number);
    char *to = text;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}

/* Appends the hottest function in the columns that are left. */
static void put_hottest(struct sonde_buf *line, const Sonde__V1__Progress *progress,
                        size_t columns) {
    struct sonde_buf readable = {0};
    size_t start = line->len;
    sonde_buf_printf(line, "  hottest: %.0f %% ", progress->hottest_share * 100);
    if (columns >= line->len + LEAST_NAME) {
        draw_readable_name(&readable, progress->hottest, false);
        draw_short_name(line, sonde_buf_slice(&readable).data, columns - line->len);
    } else if (!line->failed) {
        line->data[line->len = start] = 0;
    }
    sonde_buf_finish(&readable);
}

/* One line, which a narrow terminal does not wrap. */
static void show_progress(struct capture *capture, const Sonde__V1__Progress *progress) {
    char samples[32], dropped[32];
    size_t columns = capture->on_terminal ? output_terminal_columns(STDERR_FILENO) - 1 : 0;
    struct sonde_buf line = {0};
    if (!capture->on_terminal)
        return;
    sonde_buf_printf(&line, "%u s of %u  %s samples", progress->elapsed_ms / 1000,
                     (progress->duration_ms + 999) / 1000,
                     group_digits(progress->samples, samples));
    if (progress->dropped)
        sonde_buf_printf(&line, "  %s dropped", group_digits(progress->dropped, dropped));
    if (progress->hottest && progress->hottest[0])
        put_hottest(&line, progress, columns);
    fputs("\r\033[K", stderr);
    cli_put_columns(stderr, sonde_buf_slice(&line).data, columns);
    fflush(stderr);
    sonde_buf_finish(&line);
    capture->line_shown = true;
}

/* Chance moves a sum of samples; three standard deviations of their number leave that out. Clocks
 * are read a little later than windows end, which is less than a tenth. */
static void read_counted(const Sonde__V1__Completeness *sent, struct capture_completeness *to) {
    double counted = (double)sent->counted_ns, sampled = (double)sent->sampled_ns;
    if (counted <= 0)
        return;
    double by_chance = sent->samples ? 3 / sqrt((double)sent->samples) : INFINITY;
    to->counted_part = sampled / counted;
    to->lacks_time = sampled < 0.9 * counted && sampled * (1 + by_chance) < counted;
}

void capture_read_completeness(const Sonde__V1__Completeness *sent,
                               struct capture_completeness *to) {
    *to = (struct capture_completeness){.is_known = sent != NULL};
    if (!sent)
        return;
    to->windows_expected = sent->windows_expected;
    to->windows_received = sent->windows_received;
    to->dropped = sent->dropped;
    to->unknown_stacks = sent->unknown_stacks;
    to->trimmed_nodes = sent->trimmed_nodes;
    to->shards_asked = sent->shards_asked;
    to->shards_answered = sent->shards_answered;
    to->window_s = sent->window_s;
    to->open_s = sent->open_s;
    to->first_unix_ns = sent->first_unix_ns;
    to->last_unix_ns = sent->last_unix_ns;
    to->recording_began_unix_ns = sent->recording_began_unix_ns;
    read_counted(sent, to);
    to->drawn_processes = sent->drawn_processes;
    to->drawn_for = sent->drawn_for;
    to->drawn_deviation = sent->drawn_deviation;
    to->silence_count = sent->n_silences + (uint64_t)sent->silences_omitted;
    for (size_t i = 0; i < sent->n_silences && i < CAPTURE_MAX_SILENCES; i++) {
        const Sonde__V1__Silence *silence = sent->silences[i];
        snprintf(to->silences[i].host, sizeof to->silences[i].host, "%s", silence->host);
        to->silences[i].from_unix_ns = silence->from_unix_ns;
        to->silences[i].until_unix_ns = silence->until_unix_ns;
    }
}

static void read_result_start(struct capture *capture, const Sonde__V1__ResultStart *start) {
    struct capture_result *result = capture->result;
    capture->expected = start->size_bytes;
    result->bytes = start->size_bytes;
    result->samples = start->samples;
    result->dropped = start->dropped;
    result->truncated = start->truncated;
    result->duration_ms = start->duration_ms;
    result->target_gone = start->target_gone;
    result->target_execed = start->target_execed;
    result->frequency_hz = start->frequency_hz;
    result->capture_id = start->capture_id;
    snprintf(result->target, sizeof result->target, "%s", start->target);
    result->pid = start->pid;
    snprintf(result->keep_error, sizeof result->keep_error, "%s", start->keep_error);
    result->complete = true;
    snprintf(result->budget_note, sizeof result->budget_note, "%s",
             start->budget_note ? start->budget_note : "");
    snprintf(result->clock, sizeof result->clock, "%s", start->clock ? start->clock : "");
    snprintf(result->clock_note, sizeof result->clock_note, "%s", start->clock_note);
    capture_read_completeness(start->completeness, &result->completeness);
    capture_read_completeness(start->base_completeness, &result->base_completeness);
}

static void note_begin(struct capture *capture) {
    const struct capture_settings *settings = capture->settings;
    if (!capture->has_begun && settings && settings->on_begin)
        settings->on_begin(settings->context);
    capture->has_begun = true;
}

static bool on_event(void *context, const ProtobufCMessage *message) {
    struct capture *capture = context;
    const Sonde__V1__CaptureEvent *event = (const Sonde__V1__CaptureEvent *)message;
    switch (event->event_case) {
    case SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS:
        note_begin(capture);
        show_progress(capture, event->progress);
        break;
    case SONDE__V1__CAPTURE_EVENT__EVENT_RESULT:
        read_result_start(capture, event->result);
        break;
    case SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK:
        capture->received += event->chunk.len;
        capture->err =
            output_write(capture->output, event->chunk.data, event->chunk.len, capture->diag);
        break;
    default: /* an event added by a later version */
        break;
    }
    return capture->err == SONDE_OK;
}

static sonde_err check_complete(const struct capture *capture, struct sonde_diag *diag) {
    if (capture->err)
        return capture->err;
    if (!capture->result->complete || capture->received != capture->expected)
        return sonde_fail(diag, SONDE_PROTOCOL,
                          "the service closed the stream before the result was complete");
    return SONDE_OK;
}

static sonde_err receive(struct service *service, const struct client_method *method,
                         const ProtobufCMessage *request, uint32_t deadline_ms,
                         struct capture *capture, struct sonde_diag *diag) {
    *capture->result = (struct capture_result){0};
    sonde_err err = service_stream(service, method, request, deadline_ms, on_event, capture, diag);
    if (capture->line_shown)
        fputs("\r\033[K", stderr);
    return err ? err : check_complete(capture, diag);
}

sonde_err capture_receive(struct service *service, const struct client_method *method,
                          const ProtobufCMessage *request, uint32_t deadline_ms,
                          struct output *output, struct capture_result *result,
                          struct sonde_diag *diag) {
    struct capture capture = {
        .output = output, .result = result, .on_terminal = isatty(2), .diag = diag};
    return receive(service, method, request, deadline_ms, &capture, diag);
}

/* The index of a word; `count` if it is none of them. */
static size_t find_word(const char *text, const char *const words[], size_t count) {
    size_t i = 0;
    while (i < count && strcmp(text, words[i]) != 0)
        i++;
    return i;
}

sonde_err capture_read_mode(const char *text, Sonde__V1__CpuMode *mode, struct sonde_diag *diag) {
    size_t i = text ? sonde_event_find_mode(sonde_slice_of(text)) : (size_t)*mode;
    if (i == SONDE_MODES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--mode: \"%s\" is not " SONDE_MODE_NAMES,
                          text);
    *mode = (Sonde__V1__CpuMode)i;
    return SONDE_OK;
}

sonde_err capture_read_source(const char *text, Sonde__V1__Source *source,
                              struct sonde_diag *diag) {
    static const char *const names[] = {
        [SONDE__V1__SOURCE__AUTOMATIC] = "auto",
        [SONDE__V1__SOURCE__HOST] = "host",
        [SONDE__V1__SOURCE__GUEST] = "guest",
    };
    size_t i = text ? find_word(text, names, COUNT_OF(names)) : *source;
    if (i == COUNT_OF(names))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--source: \"%s\" is not auto, host or guest", text);
    *source = (Sonde__V1__Source)i;
    return SONDE_OK;
}

static sonde_err read_max_overhead(const char *text, double *share, struct sonde_diag *diag) {
    if (!text)
        return SONDE_OK;
    if (cli_read_share(text, share) && *share >= 0.0001 && *share <= 1)
        return SONDE_OK;
    return sonde_fail(
        diag, SONDE_INVALID_ARGUMENT,
        "--max-overhead: \"%s\" is neither a fraction from 0.0001 to 1 nor a percentage", text);
}

/* Nobody else may guess it: whoever has the key can end the capture. "" if there is none. */
static void choose_key(char *key, size_t size) {
    unsigned char random[16];
    key[0] = 0;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(key + 2 * i, size - 2 * i, "%02x", random[i]);
}

sonde_err capture_run(struct service *service, const char *target,
                      const struct capture_settings *settings, enum sonde_format format,
                      struct output *output, struct capture_result *result,
                      struct sonde_diag *diag) {
    Sonde__V1__TargetSelector selector;
    service_select(target, &selector);
    selector.all = settings->all;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)format;
    rendering.split_threads = cli_splits_threads(&settings->threads);
    rendering.hide_idle = settings->hide_idle;
    rendering.title = settings->title ? (char *)settings->title : rendering.title;
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    request.target = &selector;
    request.duration_ms =
        (uint32_t)((settings->seconds > 0 ? settings->seconds : DEFAULT_SECONDS) * 1000 + 0.5);
    request.frequency_hz = (uint32_t)settings->frequency;
    request.event = settings->event ? (char *)settings->event : request.event;
    request.period = settings->period;
    request.max_samples = settings->max_samples;
    request.rendering = &rendering;
    request.no_progress = !isatty(2) && !settings->on_begin;
    request.keep = settings->keep;
    request.locks = settings->locks;
    request.as_contentions = settings->as_contentions;
    request.note = settings->note ? (char *)settings->note : request.note;
    sonde_err err = capture_read_mode(settings->mode, &request.mode, diag);
    if (!err)
        err = capture_read_source(settings->source, &request.source, diag);
    if (!err)
        err = read_max_overhead(settings->max_overhead, &request.max_overhead, diag);
    if (err)
        return err;
    choose_key(service->key, sizeof service->key);
    request.key = service->key;
    struct capture capture = {.output = output,
                              .result = result,
                              .on_terminal = isatty(2) && !settings->on_begin,
                              .settings = settings,
                              .diag = diag};
    err = receive(service, &client_capture_cpu, &request.base,
                  request.duration_ms + RENDER_TIMEOUT_MS, &capture, diag);
    service->key[0] = 0;
    return err;
}

bool capture_read_number(const char *word, uint64_t *id) {
    size_t digits = strspn(word, "0123456789");
    *id = 0;
    for (size_t i = 0; i < digits && digits < 19; i++)
        *id = *id * 10 + (uint64_t)(word[i] - '0');
    return *id > 0 && !word[digits];
}

static void print_saved(const struct capture_result *result) {
    if (result->capture_id)
        fprintf(stderr, "saved as capture %" PRIu64 "\n", result->capture_id);
    if (result->keep_error[0])
        fprintf(stderr, "not saved: %s\n", result->keep_error);
}

/* Which process a name has chosen. */
static void print_process(const struct capture_result *result) {
    if (!result->pid)
        return;
    cli_put_name(stderr, result->target);
    fprintf(stderr, " (pid %" PRId32 "), ", result->pid);
}

static const char *early_end(const struct capture_result *result) {
    if (result->target_gone && result->target_execed)
        return "; the target called exec, which ends the capture of one process";
    return result->target_gone ? "; the target exited early" : "";
}

void capture_print_summary(const char *path, const struct capture_result *result) {
    char samples[32], dropped[32];
    bool is_best = !result->clock[0] || sonde_clock_is_best(result->clock);
    fprintf(stderr, "%s: ", path);
    print_process(result);
    fprintf(stderr, "%s samples in %.1f s, %s dropped%s%s%s\n",
            group_digits(result->samples, samples), result->duration_ms / 1000.0,
            group_digits(result->dropped, dropped), is_best ? "" : ", clock ",
            is_best ? "" : result->clock, early_end(result));
    cli_put_line(stderr, "note: ", result->clock_note);
    cli_put_line(stderr, "overhead ceiling: ", result->budget_note);
    if (result->samples == 0)
        fputs("no samples: the target was idle; if not, run `sonde doctor`\n", stderr);
    print_saved(result);
}

const char *capture_time_text(int64_t unix_ns, char text[CAPTURE_TIME_BYTES]) {
    time_t at = (time_t)(unix_ns / 1000000000), now = time(NULL);
    struct tm local, today;
    if (!localtime_r(&at, &local) || !localtime_r(&now, &today))
        return "?";
    bool is_today = local.tm_year == today.tm_year && local.tm_yday == today.tm_yday;
    strftime(text, CAPTURE_TIME_BYTES, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

static bool is_complete(const struct capture_completeness *found) {
    return found->windows_received >= found->windows_expected && found->dropped == 0 &&
           found->unknown_stacks == 0 && found->trimmed_nodes == 0 &&
           found->shards_answered == found->shards_asked && found->silence_count == 0 &&
           !found->lacks_time;
}

static void print_silences(const struct capture_completeness *found) {
    char from[CAPTURE_TIME_BYTES], until[CAPTURE_TIME_BYTES];
    uint64_t shown =
        found->silence_count < CAPTURE_MAX_SILENCES ? found->silence_count : CAPTURE_MAX_SILENCES;
    for (uint64_t i = 0; i < shown; i++) {
        fputs("host ", stderr);
        cli_put_name(stderr, found->silences[i].host);
        fprintf(stderr, ": nothing from %s until %s\n",
                capture_time_text(found->silences[i].from_unix_ns, from),
                capture_time_text(found->silences[i].until_unix_ns, until));
    }
    if (found->silence_count > shown)
        fprintf(stderr, "and %" PRIu64 " more silences of hosts\n", found->silence_count - shown);
}

/* Which windows the counts are of; older services do not send it. Windows that began or ended early
 * lower the mean length of few windows. */
static void print_windows(const struct capture_completeness *found) {
    char from[CAPTURE_TIME_BYTES], until[CAPTURE_TIME_BYTES];
    fputs(" windows", stderr);
    if (found->first_unix_ns)
        fprintf(stderr, " of %u s%s, from %s until %s", found->window_s,
                found->window_s == RECORDED_WINDOW_S ? "" : " on average",
                capture_time_text(found->first_unix_ns, from),
                capture_time_text(found->last_unix_ns, until));
}

void capture_print_completeness(const char *name, const struct capture_completeness *found) {
    char windows[32], expected[32], dropped[32], began[CAPTURE_TIME_BYTES];
    if (!found->is_known)
        return;
    fprintf(stderr, "%s%s: %s of %s", name, is_complete(found) ? "complete" : "incomplete",
            group_digits(found->windows_received, windows),
            group_digits(found->windows_expected, expected));
    print_windows(found);
    fprintf(stderr, ", %s samples dropped", group_digits(found->dropped, dropped));
    if (found->unknown_stacks)
        fprintf(stderr, ", %" PRIu64 " stacks without frames", found->unknown_stacks);
    if (found->trimmed_nodes)
        fprintf(stderr, ", %" PRIu64 " nodes merged into \"other\"", found->trimmed_nodes);
    if (found->shards_answered < found->shards_asked)
        fprintf(stderr, ", %u of %u shards answered", found->shards_answered, found->shards_asked);
    if (found->open_s)
        fprintf(stderr, "; includes %u s of an open window", found->open_s);
    if (found->recording_began_unix_ns)
        fprintf(stderr, "; recording began at %s",
                capture_time_text(found->recording_began_unix_ns, began));
    fputc('\n', stderr);
    if (found->lacks_time)
        fprintf(stderr, "%.0f %% of the CPU time that the kernel counted is in this answer\n",
                100 * found->counted_part);
    if (found->drawn_processes)
        fprintf(stderr,
                "estimate: %s processes were drawn to stand for about %.0f (standard deviation of "
                "their sum: %.0f %%)\n",
                group_digits(found->drawn_processes, windows), found->drawn_for,
                100 * found->drawn_deviation);
    print_silences(found);
}
