/* SPDX-License-Identifier: Apache-2.0
 *
 * sonded: reads the settings, starts the engine and the RPC server, and waits for a signal. Signals
 * are blocked before any other thread starts, so that only the main thread receives them. */
#include "api/bytes.h"
#include "api/options.h"
#include "api/os/exit_watchdog.h"
#include "api/os/paths.h"
#include "service/engine/engine.h"
#include "service/engine/unwind_check/check_worker.h"
#include "service/heap_from_start.h"
#include "service/keep_text.h"
#include "service/local_history.h"
#include "service/rpc/core/server.h"
#include "service/serve.h"
#include "service/start_sampler.h"
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct settings {
    const char *socket, *sampler, *data_dir, *token_file, *tls_cert, *tls_key, *tls_client_ca;
    struct sonde_option_list grpc;
    struct sonde_option_list debuginfod;
    bool insecure, token_everywhere, redact, verbose, enable_heap_profiling, everybody, history;
    uint64_t workers, grace_ms, upload_mib, captures, captures_mib;
    uint64_t history_hz, history_mib, history_off_cpu_ms;
    const char *history_keep;
    uint32_t history_keep_s;
    const char *source;
    enum engine_source source_kind;
};

#define OPTION(name, letter, argument, environment, kind, field, low, high, help) \
    {                                                                             \
        name, letter, argument, environment, SONDE_OPTION_##kind,                 \
            offsetof(struct settings, field), low, high, help                     \
    }

static const struct sonde_option table[] = {
    OPTION("socket", 's', "PATH", "SONDE_SOCKET", TEXT, socket, 0, 0,
           "unix socket for guests; @NAME is abstract (default RUN/guest.sock)"),
    OPTION("everybody", 0, NULL, "SONDE_EVERYBODY", FLAG, everybody, 0, 0,
           "root only: accept guests of all users (the gRPC socket stays private)"),
    OPTION("grpc", 'g', "ADDR", "SONDE_GRPC", LIST, grpc, 0, 0,
           "gRPC address: unix:PATH or HOST:PORT (default unix:RUN/grpc.sock)"),
    OPTION("data-dir", 'd', "DIR", "SONDE_DATA_DIR", TEXT, data_dir, 0, 0,
           "data directory (default /var/lib/sonde for root, else ~/.cache/sonde)"),
    OPTION(
        "sampler", 0, "PATH", "SONDE_SAMPLER", TEXT, sampler, 0, 0,
        "program that holds the capabilities (default: sonde-sampler beside sonded); \"\" = none"),
    OPTION("source", 0, "SOURCE", "SONDE_SOURCE", TEXT, source, 0, 0,
           "who samples processes that have a guest: host, guest or auto (default auto)"),
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
    OPTION("insecure", 0, NULL, "SONDE_INSECURE", FLAG, insecure, 0, 0,
           "allow unauthenticated access from other machines"),
    OPTION("redact-command-line", 0, NULL, "SONDE_REDACT_COMMAND_LINE", FLAG, redact, 0, 0,
           "hide the arguments of a target's command line from clients"),
    OPTION("workers", 0, "N", "SONDE_WORKERS", NUMBER, workers, 1, 64,
           "threads for tables and symbols, and as many for results (default 2)"),
    OPTION("upload-mib", 0, "N", "SONDE_UPLOAD_MIB", NUMBER, upload_mib, 1, 1 << 24,
           "space for uploaded debug files, in MiB (default 16384)"),
    OPTION("enable-heap-profiling", 0, NULL, "SONDE_ENABLE_HEAP_PROFILING", FLAG,
           enable_heap_profiling, 0, 0,
           "switch on heap profiling in each target started with prof:true"),
    OPTION("captures", 0, "N", "SONDE_CAPTURES", NUMBER, captures, 1, 10000,
           "number of captures to keep (default 64)"),
    OPTION("captures-mib", 0, "N", "SONDE_CAPTURES_MIB", NUMBER, captures_mib, 1, 1 << 20,
           "space for saved captures, in MiB (default 256)"),
    OPTION("history", 0, NULL, "SONDE_HISTORY", FLAG, history, 0, 0,
           "record every target continuously, and the CPU time of all processes"),
    OPTION("history-hz", 0, "N", "SONDE_HISTORY_HZ", NUMBER, history_hz, 1, 1000,
           "samples per second of CPU time to record (default 19)"),
    OPTION("history-keep", 0, "TIME", "SONDE_HISTORY_KEEP", TEXT, history_keep, 0, 0,
           "how long to keep what was recorded: 12h, 7d, 4w (default 7d); 0 = for ever"),
    OPTION("history-mib", 0, "N", "SONDE_HISTORY_MIB", NUMBER, history_mib, 16, 1 << 20,
           "space for what was recorded, in MiB (default 2048)"),
    OPTION("history-off-cpu-ms", 0, "N", "SONDE_HISTORY_OFF_CPU_MS", NUMBER, history_off_cpu_ms, 0,
           1000, "also record blocked threads, looking every N ms (default 0: off)"),
    OPTION("debuginfod", 0, "URL", "SONDE_DEBUGINFOD", LIST, debuginfod, 0, 0,
           "server to ask for missing debug files; \"env\" reads DEBUGINFOD_URLS"),
    OPTION("grace-ms", 0, "N", "SONDE_GRACE_MS", NUMBER, grace_ms, 0, 60000,
           "time for running calls to finish after SIGTERM, in ms (default 200)"),
    OPTION("verbose", 'v', NULL, "SONDE_VERBOSE", FLAG, verbose, 0, 0,
           "log one line per call on stderr"),
};

static const struct sonde_options options = {
    .usage = "sonded [--socket PATH] [--grpc ADDR]... [--data-dir DIR] [--history]",
    .about = "The profiling service: samples processes on this machine and serves the results over "
             "gRPC.\n"
             "RUN is /run/sonde for root and $XDG_RUNTIME_DIR/sonde for other users.",
    .examples = "  sonded\n"
                "  sonded --everybody\n"
                "  sonded --history --history-keep 30d --history-mib 8192\n"
                "  sonded --grpc 127.0.0.1:20179\n"
                "  sonded --grpc 0.0.0.0:20179 --tls-cert cert.pem --tls-key key.pem "
                "--token-file /etc/sonde.tokens\n",
    .table = table,
    .count = sizeof table / sizeof table[0],
};

/* The URLs of all servers, separated by blanks; the caller frees them. NULL when there are none. */
static char *debuginfod_urls(const struct sonde_option_list *list) {
    struct sonde_buf urls = {0};
    size_t len;
    for (size_t i = 0; i < list->count; i++) {
        bool is_env = strcmp(list->items[i], "env") == 0;
        const char *url = is_env ? getenv("DEBUGINFOD_URLS") : list->items[i];
        sonde_buf_printf(&urls, "%s ", url ? url : "");
    }
    return sonde_buf_take(&urls, &len);
}

static void log_on_stderr(const char *line) {
    fprintf(stderr, "sonded: %s\n", line);
}

/* Thousands of targets need sockets, rings and mapped files. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static struct local_history *open_history(const struct settings *settings, struct engine *engine) {
    const struct local_history_options history = {
        .data_dir = settings->data_dir,
        .frequency_hz = settings->history_hz,
        .off_cpu_ms = settings->history_off_cpu_ms,
        .keep_s = settings->history_keep_s,
        .max_mib = settings->history_mib,
        .log = log_on_stderr,
    };
    return settings->history ? local_history_open(&history, engine) : NULL;
}

static sonde_err start_server(const struct settings *settings, struct engine *engine,
                              struct local_history *history, struct rpc_server **server,
                              struct sonde_diag *diag) {
    char captures[4096];
    snprintf(captures, sizeof captures, "%s/captures", settings->data_dir);
    const char *const fallback[] = {sonde_default_grpc_address()};
    struct rpc_server_options rpc = {
        .engine = engine,
        .addresses = settings->grpc.count ? settings->grpc.items : fallback,
        .address_count = settings->grpc.count ? settings->grpc.count : 1,
        .token_file = settings->token_file,
        .token_everywhere = settings->token_everywhere,
        .cert_file = settings->tls_cert,
        .key_file = settings->tls_key,
        .client_ca_file = settings->tls_client_ca,
        .insecure = settings->insecure,
        .redact_command_line = settings->redact,
        .separates_users = settings->everybody,
        .captures_dir = captures,
        .captures = (uint32_t)settings->captures,
        .capture_bytes = settings->captures_mib << 20,
        .history = local_history_store(history),
        .recorder_info = history ? local_history_info : NULL,
        .recorder_context = history,
        .log = settings->verbose ? serve_log_line : NULL,
    };
    return rpc_server_create(&rpc, server, diag);
}

static sonde_err serve(const struct settings *settings, const sigset_t *awaited,
                       struct sonde_diag *diag) {
    char *debuginfod = debuginfod_urls(&settings->debuginfod);
    struct engine_options engine_settings = {
        .socket_path = settings->socket,
        .data_dir = settings->data_dir,
        .workers = (uint32_t)settings->workers,
        .symbol_worker = "/proc/self/exe",
        .upload_bytes = settings->upload_mib << 20,
        .debuginfod = debuginfod,
        .serves_everybody = settings->everybody,
        .source = settings->source_kind,
    };
    struct engine *engine = NULL;
    struct rpc_server *server = NULL;
    struct engine_watch *from_start = NULL;
    sonde_err err = start_sampler(settings->sampler, &engine_settings.sampler, diag);
    if (!err)
        err = engine_create(&engine_settings, &engine, diag);
    if (!err && settings->enable_heap_profiling)
        err = heap_from_start(engine, log_on_stderr, &from_start);
    struct local_history *history = err ? NULL : open_history(settings, engine);
    if (!err)
        err = start_server(settings, engine, history, &server, diag);
    if (!err) {
        serve_until_signal("sonded", server, awaited, settings->grace_ms);
        exit_watchdog_step("the history");
    }
    local_history_finish(history);
    exit_watchdog_step("gRPC");
    rpc_server_destroy(server);
    exit_watchdog_step("the engine");
    if (from_start)
        engine_unwatch(engine, from_start);
    engine_destroy(engine);
    local_history_close(history);
    stop_sampler(engine_settings.sampler);
    free(debuginfod);
    return err;
}

static sonde_err read_source(struct settings *settings, struct sonde_diag *diag) {
    static const char *const words[ENGINE_SOURCES] = {
        [ENGINE_AUTOMATIC] = "auto", [ENGINE_HOST] = "host", [ENGINE_GUEST] = "guest"};
    for (int i = 0; i < ENGINE_SOURCES; i++) {
        settings->source_kind = (enum engine_source)i;
        if (strcmp(settings->source, words[i]) == 0)
            return SONDE_OK;
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "--source: \"%.64s\" is not auto, host or guest", settings->source);
}

int main(int argc, char **argv) {
    if (symbol_worker_is_asked(argc, argv))
        return symbol_worker_main(argc, argv);
    if (check_worker_is_asked(argc, argv))
        return check_worker_main();
    if (symbol_fetch_is_asked(argc, argv))
        return symbol_fetch_main(argc, argv);
    struct settings settings = {
        .socket = sonde_default_guest_socket(),
        .data_dir = sonde_default_data_dir(),
        .sampler = default_sampler(),
        .workers = 2,
        .history_hz = 19,
        .history_keep = "7d",
        .source = "auto",
        .history_mib = 2048,
        .grace_ms = SERVE_GRACE_MS,
    };
    struct sonde_diag diag = {0};
    sigset_t awaited;
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    if (err == SONDE_CANCELLED)
        return 0;
    if (!err && argc > 1)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "unexpected argument \"%.64s\"; see --help",
                         argv[1]);
    if (!err)
        err =
            keep_text_read("history-keep", settings.history_keep, &settings.history_keep_s, &diag);
    if (!err)
        err = read_source(&settings, &diag);
    if (!err) {
        umask(077);
        raise_file_limit();
        serve_block_signals(&awaited);
        err = serve(&settings, &awaited, &diag);
    }
    if (!err)
        return 0;
    fprintf(stderr, "sonded: %s\n", sonde_diag_text(&diag, err));
    return sonde_error_info(err)->exit_code;
}
