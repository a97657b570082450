/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-gateway: reads the settings, handles signals and connects the HTTP server to the RPC
 * client. The main thread runs the HTTP loop and every callback of both. The client's thread posts
 * each event to that loop, so the gateway needs no locks. */
#include "gateway/gateway.h"
#include "gateway/reply/svg_policy.h"
#include "gateway/routes.h"
#include "gateway/ui/asset_folder.h"

#include "api/base/container_of.h"
#include "api/os/confine.h"
#include "api/os/exit_watchdog.h"
#include "api/os/file_limit.h"
#include "api/os/file_watch.h"
#include "api/os/log.h"
#include "api/os/own_folder.h"
#include "api/os/paths.h"
#include "api/os/secrets/tls_files.h"
#include "api/os/secrets/token_file.h"
#include "api/os/service_manager.h"
#include "api/settings/options.h"
#include "api/settings/settings_reload.h"
#include "clients/c/client.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_LISTEN "127.0.0.1:20180"

struct settings {
    struct sonde_option_list listen, tls_names, host_names;
    const char *service, *history, *service_ca, *service_cert, *service_key, *target, *token_file;
    const char *speedscope, *loopback, *tls_cert, *tls_key, *tls_client_ca;
    bool insecure, http2, quiet, redact;
    uint64_t grace_s, max_connections;
};

#define OPTION(name, letter, argument, environment, kind, field, low, high, help) \
    {                                                                             \
        name, letter, argument, environment, SONDE_OPTION_##kind,                 \
            offsetof(struct settings, field), low, high, help                     \
    }

static const struct sonde_option table[] = {
    OPTION("listen", 'l', "HOST:PORT", "SONDE_LISTEN", LIST, listen, 0, 0,
           "HTTP address: HOST:PORT or unix:PATH (default " DEFAULT_LISTEN ")"),
    OPTION("service", 's', "ADDR", "SONDE_SERVICE", TEXT, service, 0, 0,
           "address of sonded: unix:PATH or HOST:PORT (default: the local one)"),
    OPTION("history", 0, "ADDR", "SONDE_HISTORY_SERVICE", TEXT, history, 0, 0,
           "address of the History service (default: sonded's own)"),
    OPTION("target", 't', "NAME", "SONDE_TARGET", TEXT, target, 0, 0,
           "target for requests that do not name one: a name, a pid or @all"),
    OPTION("loopback", 0, "WHO", "SONDE_LOOPBACK", TEXT, loopback, 0, 0,
           "local users who need no token: own (and root; the default), everybody"),
    OPTION("token-file", 0, "FILE", "SONDE_TOKEN_FILE", TEXT, token_file, 0, 0,
           "access tokens for other users and machines, one per line: TOKEN [read,control]"),
    OPTION("tls-cert", 0, "FILE", "SONDE_TLS_CERT", TEXT, tls_cert, 0, 0,
           "server certificate chain (PEM); enables TLS on all TCP listeners"),
    OPTION("tls-key", 0, "FILE", "SONDE_TLS_KEY", TEXT, tls_key, 0, 0,
           "private key of the certificate (PEM)"),
    OPTION("tls-client-ca", 0, "FILE", "SONDE_TLS_CLIENT_CA", TEXT, tls_client_ca, 0, 0,
           "accept clients with a certificate signed by this CA (PEM)"),
    OPTION("tls-client-name", 0, "NAME", "SONDE_TLS_CLIENT_NAMES", LIST, tls_names, 0, 0,
           "accept only certificates with this common or DNS name; repeatable"),
    OPTION("insecure", 0, NULL, "SONDE_INSECURE", FLAG, insecure, 0, 0,
           "allow unauthenticated access from other machines"),
    OPTION("host-name", 0, "NAME", "SONDE_HOST_NAMES", LIST, host_names, 0, 0,
           "also accept requests for this host name; * is any; repeatable"),
    OPTION("http2", 0, NULL, "SONDE_HTTP2", FLAG, http2, 0, 0,
           "offer HTTP/2 to other machines, too (loopback always has it)"),
    OPTION("service-ca", 0, "FILE", "SONDE_SERVICE_CA", TEXT, service_ca, 0, 0,
           "use TLS to these services and trust these CA certificates (PEM)"),
    OPTION("service-cert", 0, "FILE", "SONDE_SERVICE_CERT", TEXT, service_cert, 0, 0,
           "client certificate for these services (PEM)"),
    OPTION("service-key", 0, "FILE", "SONDE_SERVICE_KEY", TEXT, service_key, 0, 0,
           "private key of the client certificate (PEM)"),
    OPTION("speedscope", 0, "DIR", "SONDE_SPEEDSCOPE", TEXT, speedscope, 0, 0,
           "folder with speedscope's release (default: share/sonde/speedscope beside bin)"),
    OPTION("redact-arguments", 0, NULL, "SONDE_REDACT_ARGUMENTS", FLAG, redact, 0, 0,
           "hide the arguments of command lines"),
    OPTION("quiet", 'q', NULL, "SONDE_GATEWAY_QUIET", FLAG, quiet, 0, 0,
           "do not log requests on stderr"),
    OPTION("grace", 0, "SECONDS", "SONDE_GATEWAY_GRACE", NUMBER, grace_s, 0, 3600,
           "time for running requests to finish after SIGTERM (default 5)"),
    OPTION("max-connections", 0, "N", "SONDE_MAX_CONNECTIONS", NUMBER, max_connections, 1, 1000000,
           "maximum number of open connections (default 4096)"),
};

static const struct sonde_options options = {
    .usage = "sonde-gateway [--listen HOST:PORT]... [--service ADDR] [--history ADDR] "
             "[--target NAME]",
    .about = "Serves Sonde's profiles over HTTP to curl, go tool pprof, jeprof and browsers.",
    .examples = "  sonde-gateway\n"
                "  sonde-gateway --listen 127.0.0.1:0 --service unix:/run/sonde/grpc.sock\n"
                "  sonde-gateway --listen 0.0.0.0:20180 --token-file /etc/sonde/token\n",
    .table = table,
    .count = sizeof table / sizeof table[0],
};

/* The event's spare bytes hold its link in the loop's queue. */
static void post_event(void *context, struct client_event *event) {
    _Static_assert(sizeof(struct http_post) <= sizeof event->data, "a post fits into an event");
    struct gateway *gateway = context;
    http_server_post(gateway->server, (struct http_post *)(void *)event->data);
}

static void on_post(void *context, struct http_post *post) {
    client_event_run(container_of((void *)post, struct client_event, data));
}

static bool is_busy(void *context) {
    return ((struct gateway *)context)->relays > 0;
}

static bool is_pprof_path(struct sonde_slice path) {
    struct path_parts parts;
    path_split(path, &parts);
    return route_family(parts.rest) == FAMILY_PPROF;
}

static void report(const char *line) {
    log_report("sonde-gateway", line);
}

static void list_signals(sigset_t *wanted) {
    sigemptyset(wanted);
    sigaddset(wanted, SIGTERM);
    sigaddset(wanted, SIGINT);
    sigaddset(wanted, SIGHUP);
}

/* For SIGHUP. */
static struct {
    struct settings_reload source;
    struct settings defaults, loaded, fresh;
    bool has_terminal;
} again;

static void on_change(void *context, const struct sonde_option *option) {
    char line[128];
    (void)context;
    snprintf(line, sizeof line, "the setting %.40s has changed; restart sonde-gateway to use it",
             option->name);
    report(line);
}

/* Tokens and certificates are in use from the next request or connection on. */
static void reload(void) {
    struct sonde_diag diag = {0};
    char line[256];
    service_manager_reloading();
    file_watch_look_now();
    again.fresh = again.defaults;
    sonde_err err =
        settings_reload(&again.source, &again.loaded, &again.fresh, on_change, NULL, &diag);
    snprintf(line, sizeof line, "reload: %s%s", err ? "the settings stay as they were: " : "done",
             err ? sonde_diag_text(&diag, err) : "");
    log_write(err ? LOG_LINE_WARNING : LOG_LINE_INFO, "sonde-gateway", line);
    service_manager_ready();
}

static void *wait_for_signals(void *context) {
    struct gateway *gateway = context;
    sigset_t wanted;
    int caught;
    list_signals(&wanted);
    while (sigwait(&wanted, &caught) == 0) {
        if (caught == SIGHUP && !again.has_terminal) {
            reload();
            continue;
        }
        service_manager_stopping();
        exit_watchdog_start("sonde-gateway", "running requests",
                            gateway->grace_s + 1 + EXIT_WATCHDOG_S);
        http_server_stop(gateway->server);
    }
    return NULL;
}

/* Runs before any thread is created, so that all inherit the mask. */
static void block_signals(void) {
    sigset_t wanted;
    list_signals(&wanted);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static sonde_err start_server(const struct settings *settings, struct gateway *gateway,
                              struct sonde_diag *diag) {
    struct http_options http = {
        .listen = settings->listen.items,
        .listen_count = settings->listen.count,
        .cert_file = settings->tls_cert,
        .key_file = settings->tls_key,
        .client_ca_file = settings->tls_client_ca,
        .report = report,
        .client_names = settings->tls_names.items,
        .client_name_count = settings->tls_names.count,
        .http2 = settings->http2,
        .log = !settings->quiet,
        .max_connections = (uint32_t)settings->max_connections,
        .on_request = gateway_on_request,
        .on_post = on_post,
        .is_pprof_path = is_pprof_path,
        .context = gateway,
    };
    if (!settings->tls_cert != !settings->tls_key)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--tls-cert and --tls-key must be given together");
    if (settings->tls_client_ca && !settings->tls_cert)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--tls-client-ca needs --tls-cert");
    sonde_err err = http_server_create(&http, &gateway->server, diag);
    if (err)
        return err;
    const char *open = http_server_open_address(gateway->server);
    if (!open || settings->insecure || gateway->tokens || settings->tls_client_ca)
        return SONDE_OK;
    http_server_destroy(gateway->server);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "other machines can reach %.64s: give --token-file, or --tls-cert, --tls-key "
                      "and --tls-client-ca, or --insecure to allow unauthenticated access",
                      open);
}

static sonde_err start_client(struct gateway *gateway, const char *address, struct client **client,
                              struct sonde_diag *diag) {
    struct client_options wanted = {
        .address = address,
        .token_file = gateway->tokens,
        .tls = gateway->service_tls,
        .post = post_event,
        .post_context = gateway,
    };
    return client_create(&wanted, client, diag);
}

/* gRPC's library does not say who is at the other end of a unix socket. */
static sonde_err check_folder(const char *address, const char *option, struct sonde_diag *diag) {
    const char *prefix = "unix:";
    bool is_unix = strncmp(address, prefix, strlen(prefix)) == 0;
    return is_unix ? own_folder_check(address + strlen(prefix), option, diag) : SONDE_OK;
}

/* Without --history, one client serves both. */
static sonde_err start_clients(const struct settings *settings, struct gateway *gateway,
                               struct sonde_diag *diag) {
    const char *service = settings->service ? settings->service : sonde_default_grpc_address();
    const struct tls_files_options tls = {.ca_file = settings->service_ca,
                                          .cert_file = settings->service_cert,
                                          .key_file = settings->service_key,
                                          .log = report};
    sonde_err err = check_folder(service, "--service", diag);
    if (!err && settings->history)
        err = check_folder(settings->history, "--history", diag);
    if (!err && tls.ca_file)
        err = tls_files_create(&tls, &gateway->service_tls, diag);
    if (!err)
        err = start_client(gateway, service, &gateway->client, diag);
    gateway->history = gateway->client;
    if (!err && settings->history) {
        gateway->history = NULL;
        err = start_client(gateway, settings->history, &gateway->history, diag);
    }
    return err;
}

/* A kernel or container without seccomp filters is no reason not to serve. */
static void confine(void) {
    struct sonde_diag diag = {0};
    sonde_err err = confine_process(CONFINE_FRONTEND, &diag);
    char line[256];
    snprintf(line, sizeof line, "running unconfined: %s", sonde_diag_text(&diag, err));
    if (err)
        report(line);
}

static void print_addresses(const struct settings *settings, const struct gateway *gateway) {
    for (size_t i = 0; i < settings->listen.count; i++)
        printf("http: %s\n", http_server_address(gateway->server, i));
    fflush(stdout);
}

static sonde_err serve(const struct settings *settings, struct gateway *gateway,
                       struct sonde_diag *diag) {
    pthread_t signals;
    sonde_err err = start_server(settings, gateway, diag);
    if (err)
        return err;
    err = start_clients(settings, gateway, diag);
    if (!err && pthread_create(&signals, NULL, wait_for_signals, gateway) != 0)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "cannot start a thread");
    if (!err) {
        pthread_detach(signals);
        confine();
        print_addresses(settings, gateway);
        service_manager_ready();
        http_server_run(gateway->server, (uint32_t)settings->grace_s * 1000, is_busy);
    }
    exit_watchdog_step("gRPC");
    if (gateway->history != gateway->client)
        client_destroy(gateway->history);
    client_destroy(gateway->client);
    tls_files_destroy(gateway->service_tls);
    http_server_destroy(gateway->server);
    return err;
}

/* PREFIX/share/sonde/speedscope of PREFIX/bin/sonde-gateway; "" if that is unknown. */
static const char *default_speedscope(char path[PATH_MAX + 32]) {
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
    path[len > 0 ? len : 0] = 0;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return "";
        *slash = 0;
    }
    return strcat(path, "/share/sonde/speedscope");
}

/* A folder that was named must be good. The default one may be missing, and if it is broken the
 * gateway goes on without. */
static sonde_err read_speedscope(const struct settings *settings, struct gateway *gateway,
                                 struct sonde_diag *diag) {
    static struct asset_folder folder;
    static char path[PATH_MAX + 32];
    struct sonde_diag detail = {0};
    const char *wanted = settings->speedscope ? settings->speedscope : default_speedscope(path);
    sonde_err err = asset_folder_read(wanted, &folder, &detail);
    if (!err)
        gateway->speedscope = &folder;
    else if (settings->speedscope)
        return sonde_fail(diag, err, "--speedscope: %.200s", sonde_diag_text(&detail, err));
    else if (err != SONDE_NOT_FOUND)
        fprintf(stderr, "sonde-gateway: serving without speedscope: %s\n",
                sonde_diag_text(&detail, err));
    return SONDE_OK;
}

int main(int argc, char **argv) {
    static struct gateway gateway; /* the signal thread may use it until the process exits */
    struct sonde_diag diag = {0};
    struct settings settings = {
        .listen = {{DEFAULT_LISTEN}, 1}, .loopback = "own", .grace_s = 5, .max_connections = 4096};
    block_signals();
    sonde_err err = file_limit_raise("sonde-gateway", &diag);
    again.has_terminal = service_manager_has_terminal();
    again.defaults = settings;
    settings_reload_keep(&again.source, &options, argc, argv);
    if (!err)
        err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    again.loaded = settings;
    if (err == SONDE_CANCELLED)
        return 0;
    if (!err && argc > 1)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "unexpected argument \"%.64s\"; see --help",
                         argv[1]);
    if (!err && strcmp(settings.loopback, "own") != 0 &&
        strcmp(settings.loopback, "everybody") != 0)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "--loopback %.64s: expected own or everybody", settings.loopback);
    if (!err && settings.token_file)
        err = token_file_create(settings.token_file, 1, report, &gateway.tokens, &diag);
    if (!err)
        err = read_speedscope(&settings, &gateway, &diag);
    if (!err) {
        gateway.default_target = settings.target;
        gateway.insecure = settings.insecure;
        gateway.grace_s = (uint32_t)settings.grace_s;
        gateway.serves_everybody = strcmp(settings.loopback, "everybody") == 0;
        gateway.host_names = settings.host_names.items;
        gateway.host_name_count = settings.host_names.count;
        gateway.redact_arguments = settings.redact;
        gateway.routes = route_table(&gateway.route_count);
        svg_policy_write(gateway.svg_policy, sizeof gateway.svg_policy);
        err = serve(&settings, &gateway, &diag);
    }
    if (err)
        log_write(LOG_LINE_ERROR, "sonde-gateway", sonde_diag_text(&diag, err));
    return sonde_error_info(err)->exit_code;
}
