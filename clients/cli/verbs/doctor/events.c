/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"
#include "clients/cli/service.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>

struct settings {
    struct service_settings service;
    bool json;
};

static void print_events(const Sonde__V1__Info *info) {
    printf("%-18s %-10s %s\n", "EVENT", "AVAILABLE", "REASON");
    for (size_t i = 0; i < info->n_events; i++) {
        const Sonde__V1__Event *event = info->events[i];
        printf("%-18s %-10s ", event->name, event->is_available ? "yes" : "no");
        cli_put_text(stdout, event->reason);
        putchar('\n');
    }
}

static sonde_err list(const struct settings *settings, struct sonde_diag *diag) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    struct service service;
    ProtobufCMessage *answer = NULL;
    request.include_events = true;
    sonde_err err = service_open_or_start(&service, &settings->service, true, diag);
    if (!err)
        err = service_call(&service, &client_get_info, &request.base, &answer, diag);
    service_close(&service);
    if (err)
        return err;
    const Sonde__V1__Info *info = (const Sonde__V1__Info *)answer;
    if (settings->json) {
        Sonde__V1__Info events = SONDE__V1__INFO__INIT;
        events.events = info->events;
        events.n_events = info->n_events;
        json_print(&events.base);
    } else {
        print_events(info);
    }
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

static int on_events(int argc, char **argv) {
    struct settings settings = {0};
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_events, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 1)
        return cli_usage(&verb_events, "unexpected argument \"%s\"", argv[1]);
    sonde_err err = list(&settings, &diag);
    return err ? cli_fail(&verb_events, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print the list as JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde events [--json]",
    .about =
        "Lists the events that --event counts, whether this machine has them, and if not, why.\n"
        "The service opens each of them to find out.",
    .examples = "  sonde events\n"
                "  sonde events --json | jq -r '.events[] | select(.isAvailable).name'\n"
                "  sonde record 4711 --event page-faults -o faults.svg\n"
                "  sonde top redis-server --event context-switches --period 1\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_events = {"events", "list the events that can be counted", on_events,
                                 &options};
