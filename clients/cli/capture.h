/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking a CPU capture and writing it to an output, with a progress line on a terminal. Main thread
 * only. */
#ifndef SONDE_CLIENTS_CLI_CAPTURE_H
#define SONDE_CLIENTS_CLI_CAPTURE_H

#include "api/draw/draw.h"
#include "clients/cli/cli.h"
#include "clients/cli/output.h"
#include "clients/cli/service.h"

struct capture_settings {
    double seconds; /* 0 = 10 */
    uint64_t frequency, max_samples;
    const char *title;
    const char *mode;         /* "cpu", "wall", "off-cpu"; NULL = cpu */
    const char *event;        /* "page-faults" ...; NULL = CPU time, or mode */
    uint64_t period;          /* with event: for one sample; 0 = at the frequency */
    const char *source;       /* "auto", "host", "guest"; NULL = auto */
    const char *max_overhead; /* "0.01", "1%"; NULL = no limit */
    bool all;                 /* several processes as one target */
    struct cli_threads threads;
    bool locks;          /* with mode: which lock each thread waits for */
    bool as_contentions; /* with mode off-cpu: count waits */
    bool hide_idle;      /* leave out threads that only wait */
    bool ignored;        /* options of perf that change nothing */
    bool keep;           /* also save the capture in sonded */
    const char *note;    /* used with keep; NULL = none */
    /* Called once when sampling has begun, on the client's thread; NULL = nothing. The terminal
     * then belongs to a command, so that no progress is shown. */
    void (*on_begin)(void *context);
    void *context;
};

#define CAPTURE_DEFAULTS \
    { .frequency = 99 }

/* Option rows for the verbs that take captures. `at` is the path from the verb's settings to a
 * struct capture_settings. */
#define CAPTURE_OPTION(type, at, name, letter, argument, kind, field, low, high, help) \
    { name, letter, argument, NULL, SONDE_OPTION_##kind, offsetof(type, at.field), low, high, help }
#define CAPTURE_OPTIONS(type, at)                                                                \
    CAPTURE_OPTION(type, at, "duration", 'd', "SECONDS", SECONDS, seconds, 0.001, 3600,          \
                   "how long to sample: 10 (default), 500ms, 5m"),                               \
        CAPTURE_OPTION(type, at, "frequency", 'F', "HZ", NUMBER, frequency, 1, 10000,            \
                       "samples per second of CPU time (default 99)"),                           \
        CAPTURE_OPTION(type, at, "all", 'a', NULL, FLAG, all, 0, 0,                              \
                       "the whole machine, all processes of a name, or a process tree"),         \
        CAPTURE_OPTION(type, at, "source", 0, "SOURCE", TEXT, source, 0, 0,                      \
                       "auto, host (sample from outside) or guest (libsonde.so)"),               \
        CAPTURE_OPTION(type, at, "max-samples", 0, "N", NUMBER, max_samples, 0, 1e15,            \
                       "stop after N samples (default 0: no limit)"),                            \
        CAPTURE_OPTION(type, at, "mode", 0, "MODE", TEXT, mode, 0, 0,                            \
                       "cpu, wall (all threads, running or not) or off-cpu (only waiting)"),     \
        CAPTURE_OPTION(type, at, "event", 'e', "EVENT", TEXT, event, 0, 0,                       \
                       "count page-faults, context-switches ... instead (see `sonde events`)"),  \
        CAPTURE_OPTION(type, at, "period", 0, "N", NUMBER, period, 1, 1e12,                      \
                       "with --event: a sample of every N events; 1: each"),                     \
        CAPTURE_OPTION(type, at, "max-overhead", 0, "SHARE", TEXT, max_overhead, 0, 0,           \
                       "limit sampling to this share of the target's CPU time: 1% or 0.01"),     \
        CAPTURE_OPTION(type, at, "title", 0, "TEXT", TEXT, title, 0, 0, "title of the picture"), \
        PERF_OPTIONS(type, at.ignored), HIDE_IDLE_OPTION(type, at.hide_idle),                    \
        THREADS_OPTIONS(type, at.threads)

/* How complete an answer of the history is; see Completeness in profiler.proto. */
#define CAPTURE_MAX_SILENCES 20
struct capture_completeness {
    bool is_known;
    uint64_t windows_expected, windows_received, dropped, unknown_stacks, trimmed_nodes;
    uint32_t shards_asked, shards_answered, window_s, open_s;
    int64_t first_unix_ns, last_unix_ns, recording_began_unix_ns;
    uint64_t drawn_processes;
    double drawn_for, drawn_deviation;
    double counted_part; /* sampled, of the CPU time that the kernel counted; 0 = unknown */
    bool lacks_time;     /* chance does not explain the rest */
    struct {
        char host[64];
        int64_t from_unix_ns, until_unix_ns;
    } silences[CAPTURE_MAX_SILENCES]; /* the first ones */
    uint64_t silence_count;           /* of all */
};

struct capture_result {
    uint64_t samples, dropped, truncated, bytes;
    uint64_t capture_id; /* number of the saved capture; 0 = not saved */
    uint32_t duration_ms;
    double frequency_hz; /* average */
    bool target_gone, target_execed, complete;
    char keep_error[200];
    char target[64]; /* what was sampled */
    int32_t pid;     /* 0 = several processes, or not known */
    char clock[32], clock_note[256], budget_note[192];
    /* Answers of the history; the second of a difference. */
    struct capture_completeness completeness, base_completeness;
};

/* Takes a capture and writes it to output, which the caller opens and commits. After Ctrl-C the
 * capture ends with what it has. */
SONDE_MUST_USE sonde_err capture_run(struct service *service, const char *target,
                                     const struct capture_settings *settings,
                                     enum sonde_format format, struct output *output,
                                     struct capture_result *result, struct sonde_diag *diag);

/* Makes any call that answers with CaptureEvents, and writes the result to output. Shows progress
 * if the service sends it. */
SONDE_MUST_USE sonde_err capture_receive(struct service *service,
                                         const struct client_method *method,
                                         const ProtobufCMessage *request, uint32_t deadline_ms,
                                         struct output *output, struct capture_result *result,
                                         struct sonde_diag *diag);

/* Reads "cpu", "wall" or "off-cpu". NULL leaves *mode unchanged. */
SONDE_MUST_USE sonde_err capture_read_mode(const char *text, Sonde__V1__CpuMode *mode,
                                           struct sonde_diag *diag);
/* Reads "auto", "host" or "guest". NULL leaves *source unchanged. */
SONDE_MUST_USE sonde_err capture_read_source(const char *text, Sonde__V1__Source *source,
                                             struct sonde_diag *diag);
/* Reads the number of a saved capture. False if word is not a positive number. */
bool capture_read_number(const char *word, uint64_t *id);

/* Prints a line on stderr: "flame.svg: redis-server (pid 4711), 1,980 samples in 10.0 s, 0
 * dropped". */
void capture_print_summary(const char *path, const struct capture_result *result);
/* A copy of what the service sent, which may be NULL. */
void capture_read_completeness(const Sonde__V1__Completeness *sent,
                               struct capture_completeness *completeness);
/* Prints on stderr: `name` ("" or "base: "), "complete: 360 of 360 windows of 10 s, from 09:00:00
 * until 10:00:00, 0 samples dropped", and a line for each silent host. */
void capture_print_completeness(const char *name, const struct capture_completeness *completeness);
/* "12:03:20" of today, or "2026-11-26 12:03:20", in local time. */
#define CAPTURE_TIME_BYTES 32
const char *capture_time_text(int64_t unix_ns, char text[CAPTURE_TIME_BYTES]);

#endif
