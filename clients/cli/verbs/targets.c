/* SPDX-License-Identifier: Apache-2.0 */
#include "api/clock_name.h"
#include "clients/cli/json.h"
#include "clients/cli/service.h"
#include "clients/cli/verbs/targets_all.h"
#include "clients/cli/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    struct service_settings service;
    bool json, watch, all;
};

#define ROW "%8s %8s %9s  %-12s %8s  "

/* How the guest sampled it last; the name of the clock if that has a bias. */
static const char *sampled(const char *clock) {
    if (!clock || !clock[0])
        return "not sampled";
    if (!sonde_clock_is_best(clock))
        return clock;
    return "sampled";
}

static void print_target(const Sonde__V1__Target *target) {
    char pid[16], up[24], attached[24], captures[16];
    snprintf(pid, sizeof pid, "%d", target->pid);
    snprintf(captures, sizeof captures, "%u", target->captures_running);
    cli_age(up, target->start_unix_ns);
    cli_age(attached, target->attached_unix_ns);
    printf(ROW, pid, up, attached, sampled(target->clock), captures);
    cli_put_name(stdout, target->name);
    putchar('\n');
}

static void print_attached(const Sonde__V1__ListTargetsResponse *response) {
    if (response->n_targets == 0)
        puts("no targets attached; `sonde targets --all` lists all processes");
    else
        printf(ROW "NAME\n", "PID", "UP", "ATTACHED", "FROM INSIDE", "CAPTURES");
    for (size_t i = 0; i < response->n_targets; i++)
        print_target(response->targets[i]);
}

static sonde_err list(struct service *service, const struct settings *settings,
                      struct sonde_diag *diag) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer;
    request.include_unattached = settings->all;
    sonde_err err = service_call(service, &client_list_targets, &request.base, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__ListTargetsResponse *response = (const Sonde__V1__ListTargetsResponse *)answer;
    if (settings->json)
        json_print(answer);
    else if (settings->all)
        targets_print_all(response);
    else
        print_attached(response);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- Of several services ---- */

struct answers {
    Sonde__V1__ListTargetsResponse *items[SERVICES_MAX];
    const char *addresses[SERVICES_MAX];
    size_t count;
};

static void print_each(const struct answers *answers) {
    for (size_t i = 0; i < answers->count; i++) {
        printf("%s%s\n", i ? "\n" : "", answers->addresses[i]);
        print_attached(answers->items[i]);
    }
}

/* One document with the targets of all. */
static sonde_err print_together(const struct answers *answers, struct sonde_diag *diag) {
    Sonde__V1__ListTargetsResponse all = SONDE__V1__LIST_TARGETS_RESPONSE__INIT;
    for (size_t i = 0; i < answers->count; i++)
        all.n_targets += answers->items[i]->n_targets;
    all.targets = calloc(all.n_targets + 1, sizeof(Sonde__V1__Target *));
    if (!all.targets)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0, at = 0; i < answers->count; i++)
        for (size_t j = 0; j < answers->items[i]->n_targets; j++)
            all.targets[at++] = answers->items[i]->targets[j];
    json_print(&all.base);
    free(all.targets);
    return SONDE_OK;
}

/* A service that ends meanwhile, or does not answer, is left out with a line on stderr. */
static void ask(const struct found_service *found, const struct settings *settings,
                struct answers *answers) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    struct service_settings one = settings->service;
    struct service service;
    struct sonde_diag diag = {0};
    ProtobufCMessage *answer = NULL;
    one.address = found->address;
    one.token = found->is_own ? one.token : NULL;
    sonde_err err = service_open(&service, &one, &diag);
    if (!err)
        err = service_call(&service, &client_list_targets, &request.base, &answer, &diag);
    service_close(&service);
    if (err)
        (void)cli_fail(&verb_targets, err, &diag);
    if (!answer)
        return;
    answers->addresses[answers->count] = found->address;
    answers->items[answers->count++] = (Sonde__V1__ListTargetsResponse *)answer;
}

static sonde_err list_all_services(const struct found_services *found,
                                   const struct settings *settings, struct sonde_diag *diag) {
    struct answers answers = {0};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < found->count; i++)
        ask(&found->items[i], settings, &answers);
    if (settings->json)
        err = print_together(&answers, diag);
    else
        print_each(&answers);
    for (size_t i = 0; i < answers.count; i++)
        protobuf_c_message_free_unpacked(&answers.items[i]->base, NULL);
    return err;
}

/* ---- Changes ---- */

static bool on_change(void *json, const ProtobufCMessage *message) {
    const Sonde__V1__TargetEvent *event = (const Sonde__V1__TargetEvent *)message;
    if (*(bool *)json)
        json_print(message);
    if (!*(bool *)json && event->target) {
        bool gone = event->kind == SONDE__V1__TARGET_EVENT__KIND__DETACHED;
        printf("%s pid %d ", gone ? "detached" : "attached", event->target->pid);
        cli_put_name(stdout, event->target->name);
        putchar('\n');
    }
    return fflush(stdout) == 0;
}

static sonde_err watch(struct service *service, bool json, struct sonde_diag *diag) {
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    sonde_err err =
        service_stream(service, &client_watch_targets, &request.base, 0, on_change, &json, diag);
    return err == SONDE_CANCELLED ? SONDE_OK : err; /* Ctrl-C */
}

static sonde_err show(const struct settings *settings, struct sonde_diag *diag) {
    struct found_services found;
    struct service service;
    services_find(&found);
    if (!settings->service.address && !settings->all && !settings->watch && found.count > 1)
        return list_all_services(&found, settings, diag);
    /* Nothing ever attaches to a private sonded. */
    sonde_err err = settings->watch
                        ? service_open(&service, &settings->service, diag)
                        : service_open_or_start(&service, &settings->service, true, diag);
    if (!err)
        err = settings->watch ? watch(&service, settings->json, diag)
                              : list(&service, settings, diag);
    service_close(&service);
    return err;
}

static int on_targets(int argc, char **argv) {
    struct settings settings = {0};
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_targets, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 1)
        return cli_usage(&verb_targets, "unexpected argument \"%s\"", argv[1]);
    if (settings.all && settings.watch)
        return cli_usage(&verb_targets, "--watch reports only what attaches and detaches");
    sonde_err err = show(&settings, &diag);
    return err ? cli_fail(&verb_targets, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    {"all", 'a', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, all), 0, 0,
     "list all processes, the most CPU time first"},
    {"watch", 'w', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, watch), 0, 0,
     "keep running and print targets as they attach and detach"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print JSON; with --watch, one line per event"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde targets [--all] [--watch] [--json]",
    .about = "Lists the processes attached to each running sonded, or all processes.",
    .examples = "  sonde targets --all\n"
                "  sonde targets --watch\n"
                "  sonde targets --json | jq -r '.targets[].pid'\n"
                "  sonde targets --service 10.0.0.7:20179\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_targets = {"targets", "list attached processes, or all", on_targets,
                                  &options};
