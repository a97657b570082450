/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"
#include "clients/cli/service.h"
#include "clients/cli/verbs/verbs.h"

struct settings {
    struct service_settings service;
    uint64_t tid, depth, threads;
    bool json, full_names, ignored;
};

static sonde_err print(struct service *service, const char *target, const struct settings *settings,
                       struct sonde_diag *diag) {
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector;
    ProtobufCMessage *answer;
    service_select(target, &selector);
    request.target = &selector;
    request.tid = (int32_t)settings->tid;
    request.max_depth = (uint32_t)settings->depth;
    request.max_threads = (uint32_t)settings->threads;
    request.as_text = !settings->json;
    request.readable_names = !settings->full_names;
    sonde_err err = service_call(service, &client_get_backtraces, &request.base, &answer, diag);
    if (err)
        return err;
    if (settings->json)
        json_print(answer);
    else
        fputs(((const Sonde__V1__Backtraces *)answer)->text, stdout);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

static int on_threads(int argc, char **argv) {
    struct settings settings = {0};
    struct sonde_diag diag = {0};
    struct service service;
    int status;
    if (!cli_options(&verb_threads, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_threads, "unexpected argument \"%s\"", argv[2]);
    sonde_err err = service_open_or_start(&service, &settings.service, argc > 1, &diag);
    if (!err)
        err = print(&service, argc > 1 ? argv[1] : "", &settings, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_threads, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    {"tid", 't', "TID", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, tid), 1, INT32_MAX,
     "only this thread"},
    {"depth", 0, "FRAMES", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, depth), 2, 4096,
     "maximum frames per stack; longer stacks lose the middle (default 127)"},
    {"most", 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, threads), 1, 100000,
     "maximum number of threads (default 10000)"},
    {"full-names", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, full_names), 0, 0,
     "print C++ names with all arguments"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print one line of JSON"},
    PERF_OPTIONS(struct settings, ignored),
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde threads [TARGET] [--tid TID] [--json]",
    .about = "Prints what every thread of a target is doing now: its stack, state, wait channel "
             "and CPU time,\n"
             "the lock it waits for and the thread that holds that lock. Deadlocks come first.\n"
             "Threads with the same stack are grouped. Sleeping threads are not disturbed; running "
             "threads\n"
             "pause for tens of microseconds, and the pause is reported.",
    .examples = "  sonde threads\n"
                "  sonde threads redis-server\n"
                "  sonde threads 4711 --tid 4713\n"
                "  sonde threads --json | jq '.threads[] | select(.state == \"R\")'\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_threads = {"threads", "print the stacks of all threads", on_threads,
                                  &options};
