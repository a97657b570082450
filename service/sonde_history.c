/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-history: the History service by itself, over a store for many machines. */
#include "api/os/exit_watchdog.h"
#include "api/os/file_limit.h"
#include "api/os/log.h"
#include "api/os/paths.h"
#include "api/settings/options.h"
#include "service/programs/keep_text.h"
#include "service/programs/name_files.h"
#include "service/programs/open_store.h"
#include "service/programs/serve.h"
#include "service/programs/store_threads/maintenance.h"
#include "service/programs/store_threads/watching.h"
#include "service/rpc/server.h"
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/worker/worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct settings {
    const char *grpc_group, *store, *symbols, *token_file, *tls_cert, *tls_key, *tls_client_ca;
    struct sonde_option_list grpc, debuginfod, tls_names, keep;
    bool insecure, token_everywhere, verbose;
    struct watching_settings watch;
    uint64_t mib, grace_ms;
};

#define OPTION(name, letter, argument, environment, kind, field, low, high, help) \
    {                                                                             \
        name, letter, argument, environment, SONDE_OPTION_##kind,                 \
            offsetof(struct settings, field), low, high, help                     \
    }

static const struct sonde_option table[] = {
    OPTION("store", 's', "NAME", "SONDE_STORE", TEXT, store, 0, 0,
           "where history is stored: sqlite:DIR or clickhouse:URL (see sonde-history(8))"),
    OPTION("grpc-group", 0, "GROUP", "SONDE_GRPC_GROUP", TEXT, grpc_group, 0, 0,
           "group whose members may use unix sockets of --grpc, too; trust them like this user"),
    OPTION("grpc", 'g', "ADDR", "SONDE_HISTORY_GRPC", LIST, grpc, 0, 0,
           "gRPC address: unix:PATH or HOST:PORT (default unix:RUN/history.sock)"),
    OPTION("keep", 0, "TIME", "SONDE_HISTORY_KEEP", LIST, keep, 0, 0,
           "delete what is older: 12h, 7d (default: nothing); repeatable: SELECTOR=TIME"),
    OPTION("mib", 0, "N", "SONDE_HISTORY_MIB", NUMBER, mib, 16, 1 << 24,
           "delete the oldest windows beyond this size, in MiB (default: no limit)"),
    OPTION("watch", 0, NULL, "SONDE_WATCH", FLAG, watch.is_on, 0, 0, WATCH_HELP),
    OPTION("watch-webhook", 0, "URL", "SONDE_WATCH_WEBHOOK", TEXT, watch.webhook, 0, 0,
           WATCH_WEBHOOK_HELP),
    OPTION("symbols", 0, "DIR", "SONDE_HISTORY_SYMBOLS", TEXT, symbols, 0, 0,
           "directory for fetched debug files and their tables; --debuginfod needs it"),
    OPTION("debuginfod", 0, "URL", "SONDE_DEBUGINFOD", LIST, debuginfod, 0, 0,
           "server to ask for missing debug files; \"env\" reads DEBUGINFOD_URLS"),
    OPTION("token-file", 0, "FILE", "SONDE_TOKEN_FILE", TEXT, token_file, 0, 0,
           "access tokens for remote clients, one per line: TOKEN [read,control]"),
    OPTION("token-everywhere", 0, NULL, "SONDE_TOKEN_EVERYWHERE", FLAG, token_everywhere, 0, 0,
           "require a token on unix sockets and loopback, too"),
    OPTION("tls-cert", 0, "FILE", "SONDE_TLS_CERT", TEXT, tls_cert, 0, 0,
           "server certificate chain (PEM); enables TLS on all TCP addresses"),
    OPTION("tls-key", 0, "FILE", "SONDE_TLS_KEY", TEXT, tls_key, 0, 0,
           "private key of the certificate (PEM)"),
    OPTION("tls-client-ca", 0, "FILE", "SONDE_TLS_CLIENT_CA", TEXT, tls_client_ca, 0, 0,
           "require client certificates signed by this CA (PEM)"),
    OPTION("tls-client-name", 0, "NAME", "SONDE_TLS_CLIENT_NAMES", LIST, tls_names, 0, 0,
           "accept only certificates with this common or DNS name; repeatable"),
    OPTION("insecure", 0, NULL, "SONDE_INSECURE", FLAG, insecure, 0, 0,
           "allow unauthenticated access from other machines"),
    OPTION("grace-ms", 0, "N", "SONDE_GRACE_MS", NUMBER, grace_ms, 0, 60000,
           "time for running calls to finish after SIGTERM, in ms (default 200)"),
    OPTION("verbose", 'v', NULL, "SONDE_VERBOSE", FLAG, verbose, 0, 0,
           "log one line per call on stderr"),
};

static const struct sonde_options options = {
    .usage = "sonde-history --store NAME [--grpc ADDR]... [--keep TIME] [--mib N]",
    .about = "The History service: stores profiles that controllers send, and answers queries over "
             "gRPC.\n"
             "RUN is /run/sonde for root and $XDG_RUNTIME_DIR/sonde for other users.",
    .examples = "  sonde-history --store sqlite:/var/lib/sonde/history --keep 30d\n"
                "  sonde-history --store clickhouse:http://127.0.0.1:8123/sonde "
                "--grpc 127.0.0.1:20181\n",
    .version = "OTLP profiles 1.10",
    .table = table,
    .count = sizeof table / sizeof table[0],
};

static void log_on_stderr(const char *line) {
    log_report("sonde-history", line);
}

static sonde_err start_server(const struct settings *settings, struct store *store,
                              struct store_stop *end, const struct history_namer *namer,
                              struct watching *watching, struct rpc_server **server,
                              struct sonde_diag *diag) {
    const char *const fallback[] = {sonde_default_history_address()};
    struct rpc_server_options rpc = {
        .history = store,
        .history_end = end,
        .watch_info = watching ? watching_info : NULL,
        .watch_context = watching,
        .namer = namer,
        .addresses = settings->grpc.count ? settings->grpc.items : fallback,
        .address_count = settings->grpc.count ? settings->grpc.count : 1,
        .token_file = settings->token_file,
        .token_everywhere = settings->token_everywhere,
        .cert_file = settings->tls_cert,
        .key_file = settings->tls_key,
        .client_ca_file = settings->tls_client_ca,
        .client_names = settings->tls_names.items,
        .client_name_count = settings->tls_names.count,
        .insecure = settings->insecure,
        .log = serve_log_line,
        .log_switch = &serve_is_verbose,
        .unix_group = settings->grpc_group,
        .report = log_on_stderr,
    };
    return rpc_server_create(&rpc, server, diag);
}

static sonde_err open_files(const struct settings *settings, struct name_files **files,
                            struct sonde_diag *diag) {
    char *debuginfod = serve_debuginfod_urls(&settings->debuginfod);
    sonde_err err = name_files_create(settings->symbols, debuginfod, files, diag);
    free(debuginfod);
    return err;
}

static sonde_err serve(const struct settings *settings, const struct store_limits *limits,
                       struct store_stop *end, const struct serve_options *reload,
                       const sigset_t *awaited, struct sonde_diag *diag) {
    struct store *store = NULL;
    struct maintenance *maintenance = NULL;
    struct watching *watching = NULL;
    struct rpc_server *server = NULL;
    struct name_files *files = NULL;
    struct history_namer namer;
    sonde_err err = open_store("sonde-history", settings->store, limits, end, awaited,
                               log_on_stderr, &store, diag);
    if (!err)
        err = open_files(settings, &files, diag);
    namer = name_files_namer(files);
    if (!err)
        err = maintenance_start(store, MAINTENANCE_S, log_on_stderr, &maintenance, diag);
    if (!err)
        err = watching_start(&settings->watch, store, log_on_stderr, &watching, diag);
    if (!err)
        err = start_server(settings, store, end, &namer, watching, &server, diag);
    if (!err)
        serve_until_signal(reload, server, awaited);
    exit_watchdog_step("gRPC");
    name_files_end(files);
    rpc_server_destroy(server);
    name_files_destroy(files);
    exit_watchdog_step("the store");
    atomic_store(&end->is_stopped, true);
    watching_stop(watching);
    maintenance_stop(maintenance);
    store_close(store);
    return err;
}

static sonde_err check(const struct settings *settings, int argc, char **argv,
                       struct keep_rules *rules, struct store_limits *limits,
                       struct sonde_diag *diag) {
    if (argc > 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unexpected argument \"%.64s\"; see --help",
                          argv[1]);
    if (!settings->store)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--store is missing: sqlite:DIR or clickhouse:URL; see --help");
    if (settings->debuginfod.count && !settings->symbols)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--debuginfod needs --symbols DIR, where fetched files are kept");
    sonde_err err = watching_check(&settings->watch, true, diag);
    if (!err)
        err = keep_rules_read("keep", &settings->keep, 0, rules, diag);
    limits->max_bytes = settings->mib << 20;
    keep_rules_limit(rules, limits);
    return err;
}

int main(int argc, char **argv) {
    if (symbol_worker_is_asked(argc, argv))
        return symbol_worker_main(argc, argv);
    if (symbol_fetch_is_asked(argc, argv))
        return symbol_fetch_main(argc, argv);
    static struct settings defaults, loaded; /* for SIGHUP */
    static struct settings_reload again;
    struct settings settings = {.grace_ms = SERVE_GRACE_MS};
    struct store_stop end = {.deadline_ns = 0};
    struct store_limits limits = {.end = &end};
    struct keep_rules rules = {.count = 0};
    struct sonde_diag diag = {0};
    sigset_t awaited;
    defaults = settings;
    settings_reload_keep(&again, &options, argc, argv);
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    loaded = settings;
    if (err == SONDE_CANCELLED)
        return 0;
    if (!err)
        err = check(&settings, argc, argv, &rules, &limits, &diag);
    if (!err)
        err = file_limit_raise("sonde-history", &diag);
    if (!err) {
        umask(077);
        serve_block_signals(&awaited);
        const struct serve_options reload = {.program = "sonde-history",
                                             .grace_ms = settings.grace_ms,
                                             .reload = &again,
                                             .defaults = &defaults,
                                             .loaded = &loaded,
                                             .settings_size = sizeof loaded};
        err = serve(&settings, &limits, &end, &reload, &awaited, &diag);
    }
    keep_rules_finish(&rules);
    if (!err || err == SONDE_CANCELLED) /* by a signal, while the store was opened */
        return 0;
    log_write(LOG_LINE_ERROR, "sonde-history", sonde_diag_text(&diag, err));
    return sonde_error_info(err)->exit_code;
}
