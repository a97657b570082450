/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/fleet/fleet.h"

#include "clients/cli/json.h"
#include "clients/cli/service.h"
#include "clients/cli/verbs/verbs.h"

#include <string.h>

#define DEFAULT_CONTROLLER "unix:/run/sonde/controller.sock"

struct settings {
    struct service_settings service;
    bool json, trouble;
};

static sonde_err get_fleet(struct service *service, ProtobufCMessage **fleet,
                           struct sonde_diag *diag) {
    Sonde__V1__GetFleetRequest request = SONDE__V1__GET_FLEET_REQUEST__INIT;
    return service_call(service, &client_get_fleet, &request.base, fleet, diag);
}

static sonde_err list_hosts(struct service *service, const char *name, bool only_in_trouble,
                            ProtobufCMessage **hosts, struct sonde_diag *diag) {
    Sonde__V1__ListHostsRequest request = SONDE__V1__LIST_HOSTS_REQUEST__INIT;
    request.name = (char *)name;
    request.only_in_trouble = only_in_trouble;
    return service_call(service, &client_list_hosts, &request.base, hosts, diag);
}

/* ---- Actions ---- */

static void show_fleet(const struct settings *settings, ProtobufCMessage *fleet) {
    if (settings->json)
        json_print(fleet);
    else
        fleet_print_status((const Sonde__V1__Fleet *)fleet);
    protobuf_c_message_free_unpacked(fleet, NULL);
}

static sonde_err status(struct service *service, const struct settings *settings, const char *word,
                        struct sonde_diag *diag) {
    ProtobufCMessage *fleet;
    (void)word;
    sonde_err err = get_fleet(service, &fleet, diag);
    if (!err)
        show_fleet(settings, fleet);
    return err;
}

static sonde_err hosts(struct service *service, const struct settings *settings, const char *word,
                       struct sonde_diag *diag) {
    ProtobufCMessage *list;
    (void)word;
    sonde_err err = list_hosts(service, "", settings->trouble, &list, diag);
    if (err)
        return err;
    if (settings->json)
        json_print(list);
    else
        fleet_print_hosts((const Sonde__V1__ListHostsResponse *)list);
    protobuf_c_message_free_unpacked(list, NULL);
    return SONDE_OK;
}

static sonde_err why(struct service *service, const struct settings *settings, const char *word,
                     struct sonde_diag *diag) {
    ProtobufCMessage *list = NULL, *fleet = NULL;
    sonde_err err = list_hosts(service, word, false, &list, diag);
    if (!err)
        err = get_fleet(service, &fleet, diag);
    const Sonde__V1__ListHostsResponse *found = (const Sonde__V1__ListHostsResponse *)list;
    if (!err && found->n_hosts != 1)
        err = sonde_fail(diag, SONDE_NOT_FOUND, "the controller does not list \"%.100s\"", word);
    if (!err && settings->json)
        json_print(&found->hosts[0]->base);
    else if (!err)
        fleet_print_why(found->hosts[0], (const Sonde__V1__Fleet *)fleet);
    if (list)
        protobuf_c_message_free_unpacked(list, NULL);
    if (fleet)
        protobuf_c_message_free_unpacked(fleet, NULL);
    return err;
}

static sonde_err set_paused(struct service *service, const struct settings *settings, bool paused,
                            const char *reason, struct sonde_diag *diag) {
    Sonde__V1__SetPausedRequest request = SONDE__V1__SET_PAUSED_REQUEST__INIT;
    ProtobufCMessage *fleet;
    request.is_paused = paused;
    request.reason = (char *)reason;
    sonde_err err = service_call(service, &client_set_paused, &request.base, &fleet, diag);
    if (!err)
        show_fleet(settings, fleet);
    return err;
}

static sonde_err do_pause(struct service *service, const struct settings *settings,
                          const char *word, struct sonde_diag *diag) {
    return set_paused(service, settings, true, word, diag);
}

static sonde_err resume(struct service *service, const struct settings *settings, const char *word,
                        struct sonde_diag *diag) {
    (void)word;
    return set_paused(service, settings, false, "", diag);
}

static const struct action {
    const char *name, *argument; /* NULL = takes none */
    bool needs_argument;
    sonde_err (*run)(struct service *service, const struct settings *settings, const char *word,
                     struct sonde_diag *diag);
} actions[] = {
    {"status", NULL, false, status}, {"hosts", NULL, false, hosts},
    {"why", "HOST", true, why},      {"pause", "REASON", true, do_pause},
    {"resume", NULL, false, resume},
};

/* ---- The verb ---- */

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < COUNT_OF(actions); i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int run_action(const struct action *action, struct settings *settings, const char *word) {
    struct sonde_diag diag = {0};
    struct service service;
    sonde_err err = service_open(&service, &settings->service, &diag);
    if (!err)
        err = action->run(&service, settings, word, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_fleet, err, &diag) : 0;
}

static int on_fleet(int argc, char **argv) {
    struct settings settings = {.service = {.address = DEFAULT_CONTROLLER, .is_controller = true}};
    int status;
    if (!cli_options(&verb_fleet, &settings, false, &argc, argv, &status))
        return status;
    const struct action *action = find_action(argc > 1 ? argv[1] : "status");
    if (!action)
        return cli_usage(&verb_fleet, "\"%.60s\" is not status, hosts, why, pause or resume",
                         argv[1]);
    int most = action->argument ? 3 : 2;
    if (action->needs_argument && argc < 3)
        return cli_usage(&verb_fleet, "%s needs a %s", action->name, action->argument);
    if (argc > most)
        return cli_usage(&verb_fleet, "unexpected argument \"%.60s\"", argv[most]);
    return run_action(action, &settings, argc > 2 ? argv[2] : "");
}

static const struct sonde_option table[] = {
    {"trouble", 't', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, trouble), 0, 0,
     "hosts: only those that are not connected or report trouble"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print one line of JSON"},
    SERVICE_OPTION(struct settings, service, "controller", "ADDR", "SONDE_CONTROLLER", address,
                   "address of sonde-collect (default " DEFAULT_CONTROLLER ")"),
    SERVICE_OPTION(struct settings, service, "token", "TOKEN", "SONDE_TOKEN", token,
                   "access token"),
    SERVICE_OPTION(struct settings, service, "service-ca", "FILE", "SONDE_SERVICE_CA", ca_file,
                   "TLS: trusted CA certificates (PEM)"),
    SERVICE_OPTION(struct settings, service, "service-cert", "FILE", "SONDE_SERVICE_CERT",
                   cert_file, "TLS: client certificate (PEM)"),
    SERVICE_OPTION(struct settings, service, "service-key", "FILE", "SONDE_SERVICE_KEY", key_file,
                   "TLS: client private key (PEM)"),
};

static const struct sonde_options options = {
    .usage = "sonde fleet status|hosts|why|pause|resume [HOST | REASON] [--controller ADDR]",
    .about = "Asks the fleet controller, sonde-collect, about all hosts, or pauses all recording.\n"
             "`why HOST` says what a host is doing and, if nothing comes from it, why.\n"
             "`pause REASON` is the kill switch: all hosts stop recording until `resume`.",
    .examples = "  sonde fleet status\n"
                "  sonde fleet hosts --trouble\n"
                "  sonde fleet why web-1\n"
                "  sonde fleet pause \"database migration\"\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_fleet = {"fleet", "watch and pause the collection from many hosts", on_fleet,
                                &options};
