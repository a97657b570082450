/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap`: one table of actions. All but `dump` are one question and one answer. */
#include "clients/cli/heap.h"

#include "clients/cli/json.h"

#include <string.h>

#define OWNER "sonde heap"

/* The answer as text. */
typedef void tell_answer(const ProtobufCMessage *answer);

static int ask(const struct heap_settings *settings, const struct client_method *method,
               const ProtobufCMessage *request, tell_answer *tell) {
    struct sonde_diag diag = {0};
    struct service service;
    ProtobufCMessage *answer = NULL;
    sonde_err err = service_open(&service, &settings->service, &diag);
    if (!err)
        err = service_ask(&service, method, request, &answer, &diag);
    service_close(&service);
    if (err)
        return cli_fail(&verb_heap, err, &diag);
    if (settings->json)
        json_print(answer);
    else
        tell(answer);
    protobuf_c_message_free_unpacked(answer, NULL);
    return 0;
}

static void tell_state(const ProtobufCMessage *answer) {
    heap_tell_state((const Sonde__V1__HeapState *)answer);
}

static void tell_dumps(const ProtobufCMessage *answer) {
    heap_tell_dumps((const Sonde__V1__ListHeapDumpsResponse *)answer);
}

static void tell_deactivated(const ProtobufCMessage *answer) {
    const Sonde__V1__HeapDeactivated *done = (const Sonde__V1__HeapDeactivated *)answer;
    if (!done->was_active)
        puts("heap profiling was off already");
    if (done->state)
        heap_tell_state(done->state);
}

static int on(const char *target, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    service_select(target, &selector);
    request.target = &selector;
    request.interval_s = (uint32_t)settings->interval;
    request.sample_bytes = settings->sample;
    request.owner = (char *)OWNER;
    return ask(settings, &client_heap_activate, &request.base, tell_state);
}

static int off(const char *target, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    service_select(target, &selector);
    request.target = &selector;
    request.delete_dumps = settings->delete_dumps;
    return ask(settings, &client_heap_deactivate, &request.base, tell_deactivated);
}

static int status(const char *target, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    service_select(target, &selector);
    request.target = &selector;
    return ask(settings, &client_heap_status, &request.base, tell_state);
}

static int reset(const char *target, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__HeapResetRequest request = SONDE__V1__HEAP_RESET_REQUEST__INIT;
    service_select(target, &selector);
    request.target = &selector;
    request.sample_bytes = settings->sample;
    return ask(settings, &client_heap_reset, &request.base, tell_state);
}

static int list(const char *target, const struct heap_settings *settings) {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    service_select(target, &selector);
    request.target = &selector;
    return ask(settings, &client_list_heap_dumps, &request.base, tell_dumps);
}

enum { TAKES_INTERVAL = 1, TAKES_SAMPLE = 2, TAKES_DELETE = 4, TAKES_FILE = 8 };

static const struct {
    const char *name;
    int (*run)(const char *target, const struct heap_settings *settings);
    unsigned takes;
} actions[] = {
    {"on", on, TAKES_INTERVAL | TAKES_SAMPLE},
    {"off", off, TAKES_DELETE},
    {"status", status, 0},
    {"dump", heap_dump, TAKES_FILE},
    {"list", list, 0},
    {"reset", reset, TAKES_SAMPLE},
};

/* A flag that this action would not look at, or NULL. */
static const char *find_useless(const struct heap_settings *settings, unsigned takes) {
    if (settings->interval && !(takes & TAKES_INTERVAL))
        return "--interval";
    if (settings->sample && !(takes & TAKES_SAMPLE))
        return "--sample";
    if (settings->delete_dumps && !(takes & TAKES_DELETE))
        return "--delete-dumps";
    if ((takes & TAKES_FILE) == 0 && settings->output)
        return "--output";
    bool says_what = settings->format || settings->name || settings->type || settings->all_one;
    return (takes & TAKES_FILE) == 0 && says_what ? "what a profile looks like" : NULL;
}

static int on_heap(int argc, char **argv) {
    struct heap_settings settings = {0};
    int status;
    if (!cli_options(&verb_heap, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 3)
        return cli_usage(&verb_heap, "one target at a time, not \"%s\" as well", argv[3]);
    for (size_t i = 0; argc > 1 && i < COUNT_OF(actions); i++) {
        if (strcmp(argv[1], actions[i].name) != 0)
            continue;
        const char *useless = find_useless(&settings, actions[i].takes);
        if (useless)
            return cli_usage(&verb_heap, "`sonde heap %s` has no use for %s", argv[1], useless);
        return actions[i].run(argc == 3 ? argv[2] : NULL, &settings);
    }
    return cli_usage(&verb_heap, "say what to do: on, off, status, dump, list or reset");
}

#define HEAP_TEXT(name, letter, argument, field, help)                                             \
    {                                                                                              \
        name, letter, argument, NULL, SONDE_OPTION_TEXT, offsetof(struct heap_settings, field), 0, \
            0, help                                                                                \
    }
#define HEAP_FLAG(name, field, help) \
    { name, 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct heap_settings, field), 0, 0, help }

static const struct sonde_option table[] = {
    {"interval", 'i', "SECONDS", NULL, SONDE_OPTION_NUMBER,
     offsetof(struct heap_settings, interval), 0, 86400, "on: keep a dump every so often"},
    {"sample", 's', "BYTES", NULL, SONDE_OPTION_NUMBER, offsetof(struct heap_settings, sample),
     4096, 1099511627776.0, "on, reset: mean distance of samples"},
    HEAP_FLAG("delete-dumps", delete_dumps, "off: do not keep the dumps"),
    HEAP_TEXT("output", 'o', "FILE", output,
              "dump: the extension is the format, - is stdout (sonde.heap)"),
    HEAP_TEXT("format", 0, "NAME", format, "dump: when the extension does not say it"),
    HEAP_TEXT("name", 'n', "NNNNNN.heap", name, "dump: one of the list instead of the heap now"),
    HEAP_TEXT("type", 't', "TYPE", type, "dump: inuse_space, inuse_objects, alloc_space, ..."),
    HEAP_FLAG("all-one", all_one, "dump: every object of a .heapsnapshot has size 1"),
    HEAP_FLAG("json", json, "the answer as JSON"),
    SERVICE_OPTIONS(struct heap_settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde heap on|off|status|dump|list|reset [TARGET] [options]",
    .about = "Profiles a target's heap: who holds its memory? Needs jemalloc with prof:true\n"
             "(`sonde run --heap` sets it).",
    .examples = "  sonde heap on redis-server --interval 60\n"
                "  sonde heap dump redis-server -o heap.svg\n"
                "  sonde heap dump --name 000001.heap -o before.pb.gz\n"
                "  sonde heap status --json\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_heap = {"heap", "profile a target's heap: who holds its memory", on_heap,
                               &options};
