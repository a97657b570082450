/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap`: the table of its actions, and those that make a single call. */
#include "clients/cli/verbs/heap/heap.h"

#include "api/text/nearest.h"
#include "clients/cli/formats.h"
#include "clients/cli/json.h"

#include <string.h>

#define OWNER       "sonde heap"
#define UUID_DIGITS 32
#define MIN_SAMPLE  4096 /* for the live heap, where each sample costs memory */

/* Prints an answer as text. */
typedef void print_answer(const ProtobufCMessage *answer);

sonde_err heap_open(struct service *service, const struct heap_settings *settings,
                    struct sonde_diag *diag) {
    struct sonde_diag detail = {0};
    sonde_err err = service_open(service, &settings->service, &detail);
    if (err == SONDE_UNAVAILABLE && !settings->service.address)
        return sonde_fail(diag, err, "%.240s; `sonde growth PID` shows which code makes it grow",
                          sonde_diag_text(&detail, err));
    *diag = detail;
    return err;
}

static int ask(const struct heap_settings *settings, const struct client_method *method,
               const ProtobufCMessage *request, print_answer *print) {
    struct sonde_diag diag = {0};
    struct service service;
    ProtobufCMessage *answer = NULL;
    sonde_err err = heap_open(&service, settings, &diag);
    if (!err)
        err = service_call(&service, method, request, &answer, &diag);
    service_close(&service);
    if (err)
        return cli_fail(&verb_heap, err, &diag);
    if (settings->json)
        json_print(answer);
    else
        print(answer);
    protobuf_c_message_free_unpacked(answer, NULL);
    return 0;
}

static void print_state(const ProtobufCMessage *answer) {
    heap_print_state((const Sonde__V1__HeapState *)answer);
}

static void print_dumps(const ProtobufCMessage *answer) {
    heap_print_dumps((const Sonde__V1__ListHeapDumpsResponse *)answer);
}

static void print_ended(const ProtobufCMessage *answer) {
    heap_print_ended((const Sonde__V1__ListHeapDumpsResponse *)answer);
}

static void print_deactivated(const ProtobufCMessage *answer) {
    const Sonde__V1__HeapDeactivated *done = (const Sonde__V1__HeapDeactivated *)answer;
    if (!done->was_active)
        puts("heap profiling was already off");
    if (done->state)
        heap_print_state(done->state);
}

void heap_select(const struct heap_settings *settings, const char *target,
                 Sonde__V1__TargetSelector *selector) {
    bool is_uuid = settings->ended && target && strlen(target) == UUID_DIGITS &&
                   strspn(target, "0123456789abcdef") == UUID_DIGITS;
    service_select(is_uuid ? NULL : target, selector);
    if (is_uuid)
        selector->uuid = (char *)target;
}

static bool read_backend(const struct heap_settings *settings,
                         Sonde__V1__HeapState__Backend *backend) {
    if (!settings->backend)
        return true;
    bool is_jemalloc = strcmp(settings->backend, "jemalloc") == 0;
    *backend = is_jemalloc ? SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC
                           : SONDE__V1__HEAP_STATE__BACKEND__INTERPOSED;
    return is_jemalloc || strcmp(settings->backend, "interposed") == 0;
}

static int on(const char *const *words, int count, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    service_select(words[0], &selector);
    request.target = &selector;
    request.interval_s = (uint32_t)settings->interval;
    request.keep_dumps = (uint32_t)settings->keep;
    request.sample_bytes = settings->sample;
    request.owner = (char *)OWNER;
    if (!read_backend(settings, &request.backend))
        return cli_usage(&verb_heap, "--backend: \"%.40s\" is neither jemalloc nor interposed",
                         settings->backend);
    return ask(settings, &client_heap_activate, &request.base, print_state);
}

static int off(const char *const *words, int count, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    service_select(words[0], &selector);
    request.target = &selector;
    request.delete_dumps = settings->delete_dumps;
    return ask(settings, &client_heap_deactivate, &request.base, print_deactivated);
}

static int status(const char *const *words, int count, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    service_select(words[0], &selector);
    request.target = &selector;
    return ask(settings, &client_heap_status, &request.base, print_state);
}

static int reset(const char *const *words, int count, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapResetRequest request = SONDE__V1__HEAP_RESET_REQUEST__INIT;
    service_select(words[0], &selector);
    request.target = &selector;
    request.sample_bytes = settings->sample;
    return ask(settings, &client_heap_reset, &request.base, print_state);
}

static int list(const char *const *words, int count, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    heap_select(settings, words[0], &selector);
    request.target = &selector;
    request.ended = settings->ended;
    return ask(settings, &client_list_heap_dumps, &request.base,
               settings->ended ? print_ended : print_dumps);
}

enum {
    TAKES_INTERVAL = 1,
    TAKES_SAMPLE = 2,
    TAKES_DELETE = 4,
    TAKES_FILE = 8,
    TAKES_DURATION = 16,
    TAKES_PROBABILITY = 32,
    TAKES_GROWTH = 64,
    TAKES_BACKEND = 128,
    TAKES_DUMP = 256, /* --name, --all-one, --older-than */
    TAKES_ENDED = 512,
};

static const struct {
    const char *name;
    heap_action *run;
    unsigned takes;
    int words;
} actions[] = {
    {"on", on, TAKES_INTERVAL | TAKES_SAMPLE | TAKES_BACKEND, 1},
    {"off", off, TAKES_DELETE, 1},
    {"status", status, 0, 1},
    {"dump", heap_dump, TAKES_FILE | TAKES_DUMP | TAKES_ENDED, 1},
    {"list", list, TAKES_ENDED, 1},
    {"diff", heap_diff, TAKES_FILE | TAKES_DURATION | TAKES_GROWTH, 3},
    {"allocs", heap_allocs, TAKES_FILE | TAKES_DURATION | TAKES_SAMPLE | TAKES_PROBABILITY, 1},
    {"reset", reset, TAKES_SAMPLE, 1},
};

/* Returns a flag that was given but that the action does not take, or NULL. */
static const char *find_unused_flag(const struct heap_settings *settings, unsigned takes) {
    const struct {
        unsigned bit;
        bool is_given;
        const char *flag;
    } flags[] = {
        {TAKES_INTERVAL, settings->interval > 0 || settings->keep > 0,
         "--interval or --keep-dumps"},
        {TAKES_SAMPLE, settings->sample > 0, "--sample"},
        {TAKES_DELETE, settings->delete_dumps, "--delete-dumps"},
        {TAKES_FILE, settings->output, "--output"},
        {TAKES_DURATION, settings->seconds > 0, "--duration"},
        {TAKES_PROBABILITY, settings->probability > 0, "--probability"},
        {TAKES_GROWTH, settings->growth_only, "--growth-only"},
        {TAKES_BACKEND, settings->backend, "--backend"},
        {TAKES_ENDED, settings->ended, "--ended"},
        {TAKES_FILE, settings->format || settings->type, "--format or --type"},
        {TAKES_FILE, settings->allocator_frames, "--allocator-frames"},
        {TAKES_DUMP, settings->name || settings->all_one || settings->older_than_s > 0,
         "--name, --all-one or --older-than"},
    };
    for (size_t i = 0; i < COUNT_OF(flags); i++)
        if (flags[i].is_given && !(takes & flags[i].bit))
            return flags[i].flag;
    return NULL;
}

/* `word` is NULL if there was none. */
static int refuse_action(const char *word) {
    const char *names[COUNT_OF(actions)];
    for (size_t i = 0; i < COUNT_OF(actions); i++)
        names[i] = actions[i].name;
    const char *nearest = word ? sonde_nearest(word, names, COUNT_OF(names)) : NULL;
    if (nearest)
        return cli_usage(&verb_heap, "unknown action \"%s\"; did you mean `sonde heap %s`?", word,
                         nearest);
    return cli_usage(&verb_heap,
                     "action needed: on, off, status, dump, list, diff, allocs or reset");
}

static int on_heap(int argc, char **argv) {
    struct heap_settings settings = {0};
    int status;
    if (heap_help(argc, argv, verb_heap.options))
        return 0;
    if (!cli_options(&verb_heap, &settings, false, &argc, argv, &status))
        return status;
    for (size_t i = 0; argc > 1 && i < COUNT_OF(actions); i++) {
        if (strcmp(argv[1], actions[i].name) != 0)
            continue;
        const char *unused = find_unused_flag(&settings, actions[i].takes);
        if (unused)
            return cli_usage(&verb_heap, "`sonde heap %s` does not take %s", argv[1], unused);
        if (settings.sample && settings.sample < MIN_SAMPLE &&
            !(actions[i].takes & TAKES_PROBABILITY))
            return cli_usage(&verb_heap, "--sample: \"%llu\" is too small; the minimum is %d",
                             (unsigned long long)settings.sample, MIN_SAMPLE);
        if (argc - 2 > actions[i].words)
            return cli_usage(&verb_heap, "unexpected argument \"%s\"", argv[argc - 1]);
        return actions[i].run((const char *const *)argv + 2, argc - 2, &settings);
    }
    return refuse_action(argv[1]);
}

#define HEAP_TEXT(name, letter, argument, field, help)                                             \
    {                                                                                              \
        name, letter, argument, NULL, SONDE_OPTION_TEXT, offsetof(struct heap_settings, field), 0, \
            0, help                                                                                \
    }
#define HEAP_FLAG(name, field, help) \
    { name, 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct heap_settings, field), 0, 0, help }

static const struct sonde_option table[] = {
    {"interval", 'i', "SECONDS", NULL, SONDE_OPTION_SECONDS,
     offsetof(struct heap_settings, interval), 0, 86400, "on: save a dump every SECONDS"},
    {"keep-dumps", 'k', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct heap_settings, keep), 1,
     10000, "on: number of dumps to keep (default 100; sonded --heap-dumps)"},
    {"sample", 's', "BYTES", NULL, SONDE_OPTION_NUMBER, offsetof(struct heap_settings, sample), 1,
     1099511627776.0, "on, reset, allocs: average bytes between samples"},
    {"duration", 'd', "SECONDS", NULL, SONDE_OPTION_SECONDS,
     offsetof(struct heap_settings, seconds), 0.001, 3600,
     "diff, allocs: how long to observe (allocs: default 10)"},
    {"probability", 'p', "P", NULL, SONDE_OPTION_DECIMAL,
     offsetof(struct heap_settings, probability), 1e-9, 1,
     "allocs: sample each allocation with this probability"},
    {"older-than", 0, "SECONDS", NULL, SONDE_OPTION_SECONDS,
     offsetof(struct heap_settings, older_than_s), 0, 1e9,
     "dump: only objects at least this old (Sonde's sampler only)"},
    HEAP_TEXT("backend", 'b', "NAME", backend,
              "on: jemalloc or interposed (default: jemalloc if it can profile)"),
    {"growth-only", 'g', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct heap_settings, growth_only),
     0, 0, "diff: show only what grew"},
    HEAP_FLAG("delete-dumps", delete_dumps, "off: delete the saved dumps"),
    HEAP_FLAG("ended", ended, "list, dump: dumps of processes that have exited"),
    HEAP_TEXT("output", 'o', "FILE", output,
              "dump, diff, allocs: output file, format by extension, - for stdout"),
    HEAP_TEXT("format", 0, "NAME", format, FORMAT_HELP),
    HEAP_TEXT("name", 'n', "NNNNNN.heap", name,
              "dump: a saved dump from the list instead of the live heap"),
    HEAP_TEXT("type", 't', "TYPE", type,
              "inuse_space (default), inuse_objects, alloc_space or alloc_objects"),
    HEAP_FLAG("allocator-frames", allocator_frames,
              "dump, diff, allocs: keep frames of the allocator and its wrappers"),
    HEAP_FLAG("all-one", all_one, "dump: give every object in a .heapsnapshot the size 1"),
    HEAP_FLAG("json", json, "print the answer as JSON"),
    SERVICE_OPTIONS(struct heap_settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde heap on|off|status|dump|list|allocs|reset|diff [TARGET | BASE [NEW [TARGET]]] "
             "[options]",
    .about =
        "Shows which code holds a target's memory, sampled by jemalloc or by Sonde's own sampler.",
    .examples = "  sonde heap on redis-server --interval 60\n"
                "  sonde heap dump redis-server -o heap.svg\n"
                "  sonde heap diff 000001.heap now redis-server -g\n"
                "  sonde heap allocs redis-server -d 5 -o allocs.svg\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_heap = {"heap", "profile a target's heap: what holds its memory", on_heap,
                               &options};
