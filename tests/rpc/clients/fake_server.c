/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that runs the service with the fake engine, for clients in other languages. It prints
 * "grpc: ADDR" for each address. SIGTERM stops it, SIGUSR1 attaches the target "other" (pid 77) and
 * SIGUSR2 detaches it. "outside" (pid 78, user 4000000000) has no guest. */
#include "api/settings/options.h"
#include "service/rpc/server.h"
#include "tests/unit/rpc/fake_engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

struct settings {
    struct sonde_option_list grpc;
    const char *token_file, *cert, *key, *client_ca;
    bool token_everywhere, insecure, redact, fresh, log, audit;
    uint64_t grace_ms, stacks, name_len;
};

#define ROW(name, kind, field) \
    { name, 0, "X", NULL, SONDE_OPTION_##kind, offsetof(struct settings, field), 0, 1e9, "" }

static const struct sonde_option table[] = {
    ROW("grpc", LIST, grpc),           ROW("token-file", TEXT, token_file),
    ROW("cert", TEXT, cert),           ROW("key", TEXT, key),
    ROW("client-ca", TEXT, client_ca), ROW("token-everywhere", FLAG, token_everywhere),
    ROW("insecure", FLAG, insecure),   ROW("redact", FLAG, redact),
    ROW("fresh", FLAG, fresh),         ROW("log", FLAG, log),
    ROW("grace-ms", NUMBER, grace_ms), ROW("stacks", NUMBER, stacks),
    ROW("name-len", NUMBER, name_len), ROW("audit", FLAG, audit),
};

static const struct sonde_options options = {.usage = "fake_server --grpc ADDR",
                                             .about = "",
                                             .table = table,
                                             .count = sizeof table / sizeof table[0]};

static void log_line(void *context, const char *line) {
    fprintf(stderr, "%s\n", line);
}

static void report_line(const char *line) {
    fprintf(stderr, "%s\n", line);
}

static void wait_for_the_end(struct engine *engine, const sigset_t *awaited) {
    for (;;) {
        int taken = 0;
        sigwait(awaited, &taken);
        if (taken == SIGUSR1)
            fake_engine_attach(engine, "other", 77);
        else if (taken == SIGUSR2)
            fake_engine_detach(engine, 77);
        else
            return;
    }
}

static struct engine *make_engine(const struct settings *settings) {
    struct engine *engine = fake_engine_create();
    fake_engine_stacks(engine, (uint32_t)settings->stacks, settings->fresh);
    fake_engine_name_len(engine, (uint32_t)settings->name_len);
    fake_engine_add(engine, "outside", 78, 4000000000u, false);
    return engine;
}

int main(int argc, char **argv) {
    struct settings settings = {.grace_ms = 200, .stacks = 3};
    struct sonde_diag diag = {0};
    struct rpc_server *server = NULL;
    sigset_t awaited;
    if (sonde_options_read(&options, &settings, false, &argc, argv, &diag)) {
        fprintf(stderr, "%s\n", diag.text);
        return 2;
    }
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGUSR1);
    sigaddset(&awaited, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &awaited, NULL);
    struct engine *engine = make_engine(&settings);
    struct rpc_server_options rpc = {.engine = engine,
                                     .addresses = settings.grpc.items,
                                     .address_count = settings.grpc.count,
                                     .token_file = settings.token_file,
                                     .token_everywhere = settings.token_everywhere,
                                     .cert_file = settings.cert,
                                     .key_file = settings.key,
                                     .client_ca_file = settings.client_ca,
                                     .insecure = settings.insecure,
                                     .redact_command_line = settings.redact,
                                     .log = settings.log ? log_line : NULL,
                                     .report = settings.audit ? report_line : NULL};
    sonde_err err = rpc_server_create(&rpc, &server, &diag);
    if (err) {
        fprintf(stderr, "%s\n", diag.text);
    } else {
        for (size_t i = 0; rpc_server_address(server, i); i++)
            printf("grpc: %s\n", rpc_server_address(server, i));
        fflush(stdout);
        wait_for_the_end(engine, &awaited);
        rpc_server_stop(server, (unsigned)settings.grace_ms);
    }
    rpc_server_destroy(server);
    engine_destroy(engine);
    return sonde_error_info(err)->exit_code;
}
