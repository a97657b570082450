/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde mcp`: the Model Context Protocol on stdin and stdout. The tools are those of the gateway's
 * /mcp: the verb starts a gateway of its own, on a unix socket that only this user can reach, and
 * passes the messages on. stdout has nothing but answers. */
#include "api/settings/install.h"
#include "clients/cli/cli.h"
#include "clients/cli/mcp/bridge.h"
#include "clients/cli/run/private_sonded.h"
#include "clients/cli/service.h"
#include "clients/cli/verbs/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct settings {
    struct service_settings service;
};

struct mcp {
    struct service service;
    struct rundir dir;
    struct helper gateway;
    char program[PATH_MAX], socket[108], listen[128];
    char session[33];
};

static void on_line(void *context, const char *line) {
    struct mcp *mcp = context;
    if (strncmp(line, "http: ", 6) == 0)
        mcp->gateway.ready = true;
}

/* Asks the service, so that one is chosen or started and its errors come before the first message.
 */
static sonde_err find_service(struct mcp *mcp, const struct settings *settings,
                              struct sonde_diag *diag) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    sonde_err err = service_open_or_start(&mcp->service, &settings->service, true, diag);
    if (!err)
        err = service_call(&mcp->service, &client_get_info, &request.base, &answer, diag);
    if (answer)
        protobuf_c_message_free_unpacked(answer, NULL);
    return err;
}

static void add(struct helper *helper, const char *option, const char *value) {
    if (!value)
        return;
    helper_add(helper, option);
    helper_add(helper, value);
}

static sonde_err start_gateway(struct mcp *mcp, const struct service_settings *settings,
                               struct sonde_diag *diag) {
    struct helper *gateway = &mcp->gateway;
    bool is_private = mcp->service.private != NULL;
    *gateway = (struct helper){.name = "sonde-gateway",
                               .mask = &mcp->service.mask,
                               .on_line = on_line,
                               .context = mcp,
                               .has_own_settings = true,
                               .output = -1};
    sonde_err err = install_find(INSTALLED_GATEWAY, mcp->program, diag);
    if (!err)
        err = rundir_create(&mcp->dir, diag);
    if (err)
        return err;
    rundir_file(&mcp->dir, "mcp.sock", mcp->socket);
    snprintf(mcp->listen, sizeof mcp->listen, "unix:%s", mcp->socket);
    helper_add(gateway, mcp->program);
    add(gateway, "--listen", mcp->listen);
    add(gateway, "--service", mcp->service.address);
    add(gateway, "--service-ca", is_private ? NULL : settings->ca_file);
    add(gateway, "--service-cert", is_private ? NULL : settings->cert_file);
    add(gateway, "--service-key", is_private ? NULL : settings->key_file);
    helper_add(gateway, "--quiet");
    err = helper_start(gateway, diag);
    if (!err)
        err = helper_wait_ready(gateway, PRIVATE_SONDED_READY_MS, mcp->service.signals, diag);
    return err;
}

/* The gateway cancels a call only within its session, so the command needs one. */
static void choose_session(struct mcp *mcp) {
    uint64_t bits[2] = {0};
    (void)!getrandom(bits, sizeof bits, 0);
    snprintf(mcp->session, sizeof mcp->session, "%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
}

static sonde_err check_token(const char *token, struct sonde_diag *diag) {
    for (const char *at = token ? token : ""; *at; at++)
        if (*at <= ' ' || *at > '~')
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "--token: must be printable ASCII without spaces");
    return SONDE_OK;
}

static sonde_err run(struct mcp *mcp, const struct settings *settings, struct sonde_diag *diag) {
    sonde_err err = check_token(settings->service.token, diag);
    if (!err)
        err = find_service(mcp, settings, diag);
    if (!err)
        err = start_gateway(mcp, &settings->service, diag);
    if (err)
        return err;
    choose_session(mcp);
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "sonde mcp: waiting for messages of an agent on stdin; agents start this "
                        "command themselves\n");
    const struct bridge bridge = {
        .peer = {.socket = mcp->socket,
                 .session = mcp->session,
                 .token = mcp->service.is_foreign ? NULL : settings->service.token},
        .gateway = &mcp->gateway,
        .sonded = mcp->service.private ? &mcp->service.private->sonded.helper : NULL,
        .signals = mcp->service.signals};
    err = bridge_run(&bridge, diag);
    return err == SONDE_CANCELLED ? SONDE_OK : err; /* the usual end of a server */
}

static int on_mcp(int argc, char **argv) {
    static struct mcp mcp; /* static because it is too large for a small stack */
    struct settings settings = {0};
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_mcp, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 1)
        return cli_usage(&verb_mcp, "unexpected argument \"%s\"", argv[1]);
    signal(SIGPIPE, SIG_IGN);
    sonde_err err = run(&mcp, &settings, &diag);
    helper_stop(&mcp.gateway);
    rundir_remove(&mcp.dir);
    service_close(&mcp.service);
    return err ? cli_fail(&verb_mcp, err, &diag) : 0;
}

static const struct sonde_option table[] = {SERVICE_OPTIONS(struct settings, service)};

static const struct sonde_options options = {
    .usage = "sonde mcp",
    .about = "Serves profiling tools to an agent: the Model Context Protocol on stdin and stdout.\n"
             "Agents start this command themselves, for example after\n"
             "`claude mcp add sonde -- sonde mcp`. Starts a private sonded if none is running.",
    .examples = "  sonde mcp\n"
                "  sonde mcp --service 10.0.0.7:20179\n"
                "  sonde mcp --service unix:/run/sonde/grpc.sock\n"
                "  sonde mcp < messages.jsonl > answers.jsonl\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_mcp = {"mcp", "serve tools to an agent (Model Context Protocol)", on_mcp,
                              &options};
