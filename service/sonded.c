/* SPDX-License-Identifier: Apache-2.0
 *
 * sonded: reads the settings, starts the engine and the RPC server, and waits for a signal. Signals
 * are blocked before any other thread starts, so that only the main thread receives them. */
#include "api/bytes.h"
#include "api/os/exit_watchdog.h"
#include "api/os/file_limit.h"
#include "api/os/log.h"
#include "api/os/paths.h"
#include "api/settings/options.h"
#include "service/collect/collect.h"
#include "service/engine/engine.h"
#include "service/engine/heap/heap.h"
#include "service/export/export.h"
#include "service/function_times/function_recorder.h"
#include "service/process/foreign_memory.h"
#include "service/programs/export_info.h"
#include "service/programs/heap_from_start.h"
#include "service/programs/keep_text.h"
#include "service/programs/local_history.h"
#include "service/programs/private_captures.h"
#include "service/programs/registrations.h"
#include "service/programs/serve.h"
#include "service/programs/start_sampler.h"
#include "service/rpc/server.h"
#include "service/sonded_jobs.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings {
    const char *socket, *grpc_group, *sampler, *data_dir, *token_file, *tls_cert, *tls_key,
        *tls_client_ca;
    struct sonde_option_list grpc, tls_names;
    struct sonde_option_list debuginfod, metric_functions;
    bool insecure, token_everywhere, redact, verbose, enable_heap_profiling, everybody, history;
    bool private, no_collect;
    struct sonde_option_list controllers;
    const char *register_name, *register_token_file, *register_ca, *register_cert, *register_key;
    char captures_dir[PRIVATE_CAPTURES_PATH];
    char grpc_beside[256]; /* the default address beside --socket */
    uint64_t workers, grace_ms, upload_mib, heap_dumps, captures, captures_mib;
    uint64_t collect_mib, collect_max_hz;
    struct local_history_settings recorded;
    struct export_options exports;
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
    OPTION("grpc-group", 0, "GROUP", "SONDE_GRPC_GROUP", TEXT, grpc_group, 0, 0,
           "group whose members may use unix sockets of --grpc, too; trust them like this user"),
    OPTION("grpc", 'g', "ADDR", "SONDE_GRPC", LIST, grpc, 0, 0,
           "gRPC address: unix:PATH or HOST:PORT (default grpc.sock beside --socket)"),
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
    OPTION("tls-client-name", 0, "NAME", "SONDE_TLS_CLIENT_NAMES", LIST, tls_names, 0, 0,
           "accept only certificates with this common or DNS name; repeatable"),
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
    OPTION("heap-dumps", 0, "N", "SONDE_HEAP_DUMPS", NUMBER, heap_dumps, 1, ENGINE_HEAP_MAX_DUMPS,
           "number of periodic heap dumps to keep per target (default 100)"),
    OPTION("captures", 0, "N", "SONDE_CAPTURES", NUMBER, captures, 1, 10000,
           "number of captures to keep (default 64)"),
    OPTION("captures-mib", 0, "N", "SONDE_CAPTURES_MIB", NUMBER, captures_mib, 1, 1 << 20,
           "space for saved captures, in MiB (default 256)"),
    OPTION("private", 0, NULL, NULL, FLAG, private, 0, 0,
           "save captures apart from other services, and delete them at exit"),
    OPTION("history", 0, NULL, "SONDE_HISTORY", FLAG, history, 0, 0,
           "record the CPU time of all processes continuously, with stacks"),
    OPTION("history-guests", 0, NULL, "SONDE_HISTORY_GUESTS", FLAG, recorded.guests_only, 0, 0,
           "with stacks only of processes that have the guest"),
    OPTION("history-hz", 0, "N", "SONDE_HISTORY_HZ", NUMBER, recorded.hz, 1, 1000,
           "samples per second of CPU time to record (default 19)"),
    OPTION("history-keep", 0, "TIME", "SONDE_HISTORY_KEEP", LIST, recorded.keep_texts, 0, 0,
           "how long to keep history (default 7d; 0 = for ever); repeatable: SELECTOR=TIME"),
    OPTION("history-mib", 0, "N", "SONDE_HISTORY_MIB", NUMBER, recorded.mib, 16, 1 << 20,
           "space for what was recorded, in MiB (default 2048)"),
    OPTION("history-off-cpu", 0, "SELECTOR", "SONDE_HISTORY_OFF_CPU", TEXT, recorded.off_cpu, 0, 0,
           "also record when such processes are blocked, with the guest or without"),
    OPTION("history-off-cpu-ms", 0, "N", "SONDE_HISTORY_OFF_CPU_MS", NUMBER, recorded.off_cpu_ms, 0,
           1000, "also record blocked threads, looking every N ms (default 0: off)"),
    OPTION("watch", 0, NULL, "SONDE_WATCH", FLAG, recorded.watch.is_on, 0, 0, WATCH_HELP),
    OPTION("watch-webhook", 0, "URL", "SONDE_WATCH_WEBHOOK", TEXT, recorded.watch.webhook, 0, 0,
           WATCH_WEBHOOK_HELP),
    OPTION("collect-mib", 0, "N", "SONDE_COLLECT_MIB", NUMBER, collect_mib, 1, 4096,
           "memory for windows that a fleet controller has not acknowledged, in MiB (default 16)"),
    OPTION("collect-max-hz", 0, "N", "SONDE_COLLECT_MAX_HZ", NUMBER, collect_max_hz, 1, 999,
           "samples per second that a fleet controller may ask for (default 99)"),
    OPTION("no-collect", 0, NULL, "SONDE_NO_COLLECT", FLAG, no_collect, 0, 0,
           "refuse fleet controllers"),
    OPTION("register", 0, "ADDR", "SONDE_REGISTER", LIST, controllers, 0, 0,
           "register with the fleet controller at HOST:PORT, if it cannot reach this machine"),
    OPTION("register-name", 0, "NAME", "SONDE_REGISTER_NAME", TEXT, register_name, 0, 0,
           "name of this machine in the controller's list (default: the host's name)"),
    OPTION("register-token-file", 0, "FILE", "SONDE_REGISTER_TOKEN_FILE", TEXT, register_token_file,
           0, 0, "access token for the controller; it needs the scope register"),
    OPTION("register-ca", 0, "FILE", "SONDE_REGISTER_CA", TEXT, register_ca, 0, 0,
           "CA of the controller's certificate (PEM); enables TLS"),
    OPTION("register-cert", 0, "FILE", "SONDE_REGISTER_CERT", TEXT, register_cert, 0, 0,
           "client certificate for the controller (PEM)"),
    OPTION("register-key", 0, "FILE", "SONDE_REGISTER_KEY", TEXT, register_key, 0, 0,
           "private key of that certificate (PEM)"),
    OPTION("otlp", 0, "URL", "SONDE_OTLP", TEXT, exports.otlp.url, 0, 0,
           "send what is recorded as OTLP profiles: http[s]://HOST:4318 or grpc[s]://HOST:4317"),
    OPTION("otlp-header", 0, "LINE", "SONDE_OTLP_HEADER", LIST, exports.otlp.headers, 0, 0,
           "header of each OTLP request, \"Name: value\"; visible to users of this machine"),
    OPTION("otlp-header-file", 0, "FILE", "SONDE_OTLP_HEADER_FILE", TEXT, exports.otlp.header_file,
           0, 0, "the same, one per line, for secrets"),
    OPTION("otlp-ca", 0, "FILE", "SONDE_OTLP_CA", TEXT, exports.otlp.ca_file, 0, 0,
           "CA of the OTLP receiver (PEM; default: the system's CAs)"),
    OPTION("otlp-cert", 0, "FILE", "SONDE_OTLP_CERT", TEXT, exports.otlp.cert_file, 0, 0,
           "client certificate for the OTLP receiver (PEM)"),
    OPTION("otlp-key", 0, "FILE", "SONDE_OTLP_KEY", TEXT, exports.otlp.key_file, 0, 0,
           "private key of that certificate (PEM)"),
    OPTION("pyroscope", 0, "URL", "SONDE_PYROSCOPE", TEXT, exports.pyroscope.url, 0, 0,
           "send what is recorded to Pyroscope: http[s]://HOST:4040[/PATH]"),
    OPTION("pyroscope-header", 0, "LINE", "SONDE_PYROSCOPE_HEADER", LIST, exports.pyroscope.headers,
           0, 0, "as --otlp-header, for Pyroscope: X-Scope-OrgID"),
    OPTION("pyroscope-header-file", 0, "FILE", "SONDE_PYROSCOPE_HEADER_FILE", TEXT,
           exports.pyroscope.header_file, 0, 0, "as --otlp-header-file, for Pyroscope"),
    OPTION("pyroscope-ca", 0, "FILE", "SONDE_PYROSCOPE_CA", TEXT, exports.pyroscope.ca_file, 0, 0,
           "CA of Pyroscope's server (PEM; default: the system's CAs)"),
    OPTION("export-queue-mib", 0, "N", "SONDE_EXPORT_QUEUE_MIB", NUMBER, exports.queue_mib, 1, 4096,
           "memory for profiles that wait for a receiver, in MiB each (default 64)"),
    OPTION("debuginfod", 0, "URL", "SONDE_DEBUGINFOD", LIST, debuginfod, 0, 0,
           "server to ask for missing debug files; \"env\" reads DEBUGINFOD_URLS"),
    OPTION("metric-function", 0, "NAME", "SONDE_METRIC_FUNCTION", LIST, metric_functions, 0, 0,
           "export this function's CPU time in /metrics; may be repeated 100 times"),
    OPTION("grace-ms", 0, "N", "SONDE_GRACE_MS", NUMBER, grace_ms, 0, 60000,
           "time for running calls to finish after SIGTERM, in ms (default 200)"),
    OPTION("verbose", 'v', NULL, "SONDE_VERBOSE", FLAG, verbose, 0, 0,
           "log one line per call on stderr"),
};

static const struct sonde_options options = {
    .usage = "sonded [--socket PATH] [--grpc ADDR]... [--data-dir DIR] [--history]\n"
             "              [--otlp URL] [--pyroscope URL]",
    .version = "OTLP profiles 1.10",
    .about = "The profiling service: samples processes on this machine and serves the results over "
             "gRPC.\n"
             "RUN is /run/sonde for root and $XDG_RUNTIME_DIR/sonde for other users.",
    .examples = "  sonded\n"
                "  sonded --everybody\n"
                "  sonded --history --history-keep 30d --history-mib 8192\n"
                "  sonded --otlp http://127.0.0.1:4318\n"
                "  sonded --pyroscope http://127.0.0.1:4040 --history\n"
                "  sonded --grpc 127.0.0.1:20179\n"
                "  sonded --grpc 0.0.0.0:20179 --tls-cert cert.pem --tls-key key.pem "
                "--token-file /etc/sonde.tokens\n",
    .table = table,
    .count = sizeof table / sizeof table[0],
};

static void log_on_stderr(const char *line) {
    log_report("sonded", line);
}

/* What samples targets all the time. */
struct recorders {
    struct function_times *functions;
    struct function_recorder *own; /* feeds functions if there is no history */
    struct exporter *exporter;
    struct local_history *history; /* also feeds the exporter */
    struct collect *collect;       /* NULL = none */
    struct registrations registrations;
};

static struct local_history *open_history(const struct settings *settings, struct engine *engine,
                                          const struct recorders *recorders) {
    const struct local_history_options history = {
        .stores = settings->history,
        .exporter = recorders->exporter,
        .data_dir = settings->data_dir,
        .settings = &settings->recorded,
        .functions = recorders->functions,
        .log = log_on_stderr,
    };
    return settings->history || recorders->exporter ? local_history_open(&history, engine) : NULL;
}

static void complain(const char *what, sonde_err err, const struct sonde_diag *diag) {
    char line[256];
    snprintf(line, sizeof line, "%s: %.180s", what, sonde_diag_text(diag, err));
    log_on_stderr(line);
}

/* Without it the service works, too. */
static void open_collect(const struct settings *settings, struct engine *engine,
                         struct recorders *recorders) {
    const struct collect_options collect = {
        .engine = engine,
        .dir = settings->data_dir,
        .keep_bytes = settings->collect_mib << 20,
        .max_hz = (uint32_t)settings->collect_max_hz,
        .log = log_on_stderr,
    };
    struct sonde_diag diag = {0};
    sonde_err err =
        settings->no_collect ? SONDE_OK : collect_create(&collect, &recorders->collect, &diag);
    if (err)
        complain("fleet controllers are refused", err, &diag);
}

/* With fleet controllers that cannot reach this machine. */
static sonde_err start_registrations(const struct settings *settings, struct recorders *recorders,
                                     struct sonde_diag *diag) {
    const struct registration_options from = {
        .name = settings->register_name,
        .token_file = settings->register_token_file,
        .ca_file = settings->register_ca,
        .cert_file = settings->register_cert,
        .key_file = settings->register_key,
        .collect = recorders->collect,
        .log = log_on_stderr,
    };
    return registrations_start(&settings->controllers, &from, &recorders->registrations, diag);
}

static sonde_err open_recorders(const struct settings *settings, struct engine *engine,
                                struct recorders *recorders, struct sonde_diag *diag) {
    const struct sonde_option_list *names = &settings->metric_functions;
    sonde_err err = SONDE_OK;
    if (names->count)
        err = function_times_create(names->items, names->count, &recorders->functions, diag);
    if (!err)
        err = export_create(&settings->exports, &recorders->exporter, diag);
    if (!err)
        recorders->history = open_history(settings, engine, recorders);
    if (!err && recorders->functions && !recorders->history)
        err = function_recorder_start(engine, recorders->functions, &recorders->own, diag);
    if (!err)
        open_collect(settings, engine, recorders);
    if (!err)
        err = start_registrations(settings, recorders, diag);
    return err;
}

/* While fleet controllers can still be sent their last windows. */
static void end_recordings(void *context) {
    struct recorders *recorders = context;
    exit_watchdog_step("the recordings");
    collect_finish(recorders->collect);
    local_history_finish(recorders->history);
    collect_drain(recorders->collect);
}

/* Before engine_destroy. */
static void finish_recorders(struct recorders *recorders) {
    function_recorder_finish(recorders->own);
    local_history_finish(recorders->history);
    registrations_stop(&recorders->registrations);
    collect_finish(recorders->collect);
    exit_watchdog_step("sending");
    export_stop(recorders->exporter);
}

/* After engine_destroy and rpc_server_destroy. */
static void close_recorders(struct recorders *recorders) {
    function_recorder_destroy(recorders->own);
    local_history_close(recorders->history);
    collect_destroy(recorders->collect);
    export_destroy(recorders->exporter);
    function_times_destroy(recorders->functions);
}

static sonde_err start_server(const struct settings *settings, struct engine *engine,
                              const struct recorders *recorders, struct rpc_server **server,
                              struct sonde_diag *diag) {
    const char *const fallback[] = {settings->grpc_beside};
    struct rpc_server_options rpc = {
        .engine = engine,
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
        .redact_command_line = settings->redact,
        .separates_users = settings->everybody,
        .captures_dir = settings->captures_dir,
        .captures = (uint32_t)settings->captures,
        .capture_bytes = settings->captures_mib << 20,
        .history = local_history_store(recorders->history),
        .recorder_info = recorders->history ? local_history_info : NULL,
        .recorder_refresh = recorders->history ? local_history_refresh : NULL,
        .recorder_context = recorders->history,
        .watch_info = local_history_watching(recorders->history) ? watching_info : NULL,
        .watch_context = local_history_watching(recorders->history),
        .functions = recorders->functions,
        .collect = recorders->collect,
        .export_info = export_info,
        .export_context = recorders->exporter,
        .log = serve_log_line,
        .log_switch = &serve_is_verbose,
        .unix_group = settings->grpc_group,
        .report = log_on_stderr,
    };
    return rpc_server_create(&rpc, server, diag);
}

static atomic_bool has_lost_sampler;

/* systemd starts the service again with all its rights, because it ends with a failure. Elsewhere
 * sonded goes on without them. */
static void on_sampler_loss(const char *problem) {
    log_write(LOG_LINE_ERROR, "sonded", problem);
    if (!getenv("INVOCATION_ID"))
        return;
    atomic_store(&has_lost_sampler, true);
    kill(getpid(), SIGTERM);
}

static sonde_err serve(const struct settings *settings, const struct serve_options *reload,
                       const sigset_t *awaited, struct sonde_diag *diag) {
    char *debuginfod = serve_debuginfod_urls(&settings->debuginfod);
    struct engine_options engine_settings = {
        .socket_path = settings->socket,
        .data_dir = settings->data_dir,
        .workers = (uint32_t)settings->workers,
        .symbol_worker = "/proc/self/exe",
        .upload_bytes = settings->upload_mib << 20,
        .heap_dumps = (uint32_t)settings->heap_dumps,
        .debuginfod = debuginfod,
        .serves_everybody = settings->everybody,
        .source = settings->source_kind,
    };
    struct engine *engine = NULL;
    struct rpc_server *server = NULL;
    struct engine_watch *from_start = NULL;
    struct recorders recorders = {0};
    sonde_err err = start_sampler(settings->sampler, &engine_settings.sampler, diag);
    if (!err)
        sampler_on_loss(engine_settings.sampler, on_sampler_loss);
    foreign_memory_start();
    if (!err)
        err = engine_create(&engine_settings, &engine, diag);
    if (!err && settings->enable_heap_profiling)
        err = heap_from_start(engine, log_on_stderr, &from_start);
    if (!err)
        err = open_recorders(settings, engine, &recorders, diag);
    if (!err)
        err = start_server(settings, engine, &recorders, &server, diag);
    if (!err) {
        struct serve_options until = *reload;
        until.before_stop = end_recordings;
        until.context = &recorders;
        serve_until_signal(&until, server, awaited);
        exit_watchdog_step("the history");
        if (atomic_load(&has_lost_sampler))
            err = sonde_fail(diag, SONDE_UNAVAILABLE, "ended because sonde-sampler was killed");
    }
    finish_recorders(&recorders);
    exit_watchdog_step("gRPC");
    rpc_server_destroy(server);
    exit_watchdog_step("the engine");
    if (from_start)
        engine_unwatch(engine, from_start);
    engine_destroy(engine);
    if (settings->private)
        private_captures_remove(settings->captures_dir);
    close_recorders(&recorders);
    stop_sampler(engine_settings.sampler);
    free(debuginfod);
    return err;
}

/* A service that is told where its guests connect leaves other places alone. */
static void choose_grpc(struct settings *settings) {
    const char *slash = strrchr(settings->socket, '/');
    if (settings->socket[0] == '@' || strcmp(settings->socket, sonde_default_guest_socket()) == 0)
        snprintf(settings->grpc_beside, sizeof settings->grpc_beside, "%s",
                 sonde_default_grpc_address());
    else
        snprintf(settings->grpc_beside, sizeof settings->grpc_beside, "unix:%.*sgrpc.sock",
                 slash ? (int)(slash + 1 - settings->socket) : 0, settings->socket);
}

static void choose_captures(struct settings *settings) {
    if (settings->private)
        private_captures_open(settings->data_dir, settings->captures_dir);
    else
        snprintf(settings->captures_dir, sizeof settings->captures_dir, "%s/captures",
                 settings->data_dir);
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
    sonded_jobs(argc, argv);
    static struct settings defaults, loaded; /* for SIGHUP */
    static struct settings_reload again;
    struct settings settings = {
        .socket = sonde_default_guest_socket(),
        .data_dir = sonde_default_data_dir(),
        .sampler = default_sampler(),
        .workers = 2,
        .source = "auto",
        .recorded = {.hz = 19, .mib = 2048},
        .grace_ms = SERVE_GRACE_MS,
        .exports = {.queue_mib = 64, .log = log_on_stderr},
    };
    struct sonde_diag diag = {0};
    sigset_t awaited;
    defaults = settings;
    settings_reload_keep(&again, &options, argc, argv);
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    loaded = settings;
    if (err == SONDE_CANCELLED)
        return 0;
    if (!err && argc > 1)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "unexpected argument \"%.64s\"; see --help",
                         argv[1]);
    if (!err)
        err = local_history_settings_read(&settings.recorded, settings.history, &diag);
    if (!err)
        err = read_source(&settings, &diag);
    if (!err)
        err = file_limit_raise("sonded", &diag);
    if (!err) {
        choose_grpc(&settings);
        choose_captures(&settings);
        umask(077);
        serve_block_signals(&awaited);
        const struct serve_options reload = {.program = "sonded",
                                             .grace_ms = settings.grace_ms,
                                             .reload = &again,
                                             .defaults = &defaults,
                                             .loaded = &loaded,
                                             .settings_size = sizeof loaded};
        err = serve(&settings, &reload, &awaited, &diag);
    }
    local_history_settings_finish(&settings.recorded);
    if (!err)
        return 0;
    log_write(LOG_LINE_ERROR, "sonded", sonde_diag_text(&diag, err));
    return sonde_error_info(err)->exit_code;
}
