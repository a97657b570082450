/* SPDX-License-Identifier: Apache-2.0
 *
 * sonde-collect, the fleet controller: reads the settings, starts its parts and waits for a
 * signal. */
#include "api/base/clock.h"
#include "api/bytes.h"
#include "api/os/exit_watchdog.h"
#include "api/os/file_watch.h"
#include "api/os/log.h"
#include "api/os/secrets/secret_file.h"
#include "api/os/secrets/tls_files.h"
#include "api/os/secrets/token_file.h"
#include "api/os/service_manager.h"
#include "api/settings/options.h"
#include "clients/collect/controller/controller.h"
#include "clients/collect/controller/report.h"
#include "clients/collect/group/group.h"
#include "clients/collect/service/service.h"
#include "clients/collect/status/status.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_S         60 /* between two lines about the fleet */
#define MAX_BUDGET     (1u << 20)
#define DELIVER_REST_S 10 /* at the end */

struct settings {
    struct sonde_option_list hosts, history, grpc;
    const char *token_file, *tls_cert, *tls_key, *tls_client_ca;
    const char *spool, *name, *group, *budget, *session, *metrics;
    const char *hosts_token_file, *hosts_ca, *hosts_cert, *hosts_key;
    const char *history_token_file, *history_ca, *history_cert, *history_key, *history_name;
    uint64_t spool_mib, lease_s, frequency_hz, window_s, off_cpu_ms, bytes_per_s, breaker;
    double max_overhead;
    bool heap, no_totals, guests_only;
};

#define OPTION(name, argument, kind, field, low, high, help)                                       \
    {                                                                                              \
        name, 0, argument, NULL, SONDE_OPTION_##kind, offsetof(struct settings, field), low, high, \
            help                                                                                   \
    }

static const struct sonde_option table[] = {
    OPTION("hosts", "SOURCE", LIST, hosts, 0, 0,
           "list of hosts: a file, dns:NAME:PORT or http[s]://...; may be repeated"),
    OPTION("history", "ADDR", LIST, history, 0, 0,
           "History, which stores the windows; several are instances over one store"),
    OPTION("spool", "DIR", TEXT, spool, 0, 0,
           "directory for windows that History has not acknowledged"),
    OPTION("spool-mib", "N", NUMBER, spool_mib, 16, 1 << 24,
           "size limit of the spool, in MiB; when it is full, hosts keep their windows (default "
           "4096)"),
    OPTION("name", "NAME", TEXT, name, 0, 0, "name of this controller (default: the host's name)"),
    OPTION("group", "NAME", TEXT, group, 0, 0,
           "share the hosts with all controllers of this group; their names must differ"),
    OPTION(
        "lease-s", "N", NUMBER, lease_s, 5, 300,
        "length of a lease in s; a controller silent for two of them loses its hosts (default 20)"),
    OPTION("session", "NAME", TEXT, session, 0, 0,
           "session of Collect on the hosts (default \"fleet\")"),
    OPTION("budget", "FILE", TEXT, budget, 0, 0,
           "samples per hour of each service; read again when it changes"),
    OPTION("metrics", "HOST:PORT", TEXT, metrics, 0, 0,
           "serve the status of all hosts at / and Prometheus' metrics at /metrics"),
    OPTION("grpc", "ADDR", LIST, grpc, 0, 0,
           "serve sonde.v1.Controller, for `sonde fleet` and hosts that register: unix:PATH or "
           "HOST:PORT; may be repeated"),
    OPTION("token-file", "FILE", TEXT, token_file, 0, 0,
           "tokens for --grpc, with the scopes read, control and register; unix sockets need none"),
    OPTION("tls-cert", "FILE", TEXT, tls_cert, 0, 0,
           "server certificate chain (PEM); enables TLS on HOST:PORT addresses of --grpc"),
    OPTION("tls-key", "FILE", TEXT, tls_key, 0, 0, "private key of the certificate (PEM)"),
    OPTION("tls-client-ca", "FILE", TEXT, tls_client_ca, 0, 0,
           "require client certificates signed by this CA (PEM)"),
    OPTION("frequency", "N", NUMBER, frequency_hz, 1, 999, "samples per second (default 19)"),
    OPTION("window-s", "N", NUMBER, window_s, 5, 300, "length of a window (default 10)"),
    OPTION("off-cpu-ms", "N", NUMBER, off_cpu_ms, 0, 1000,
           "also record blocked threads, sampled every N ms (default 0: off)"),
    OPTION("heap", NULL, FLAG, heap, 0, 0, "also record heaps that are being sampled"),
    OPTION("guests", NULL, FLAG, guests_only, 0, 0, "record only processes that have the guest"),
    OPTION("no-totals", NULL, FLAG, no_totals, 0, 0, "do not record the CPU time of all processes"),
    OPTION("max-overhead", "PERCENT", DECIMAL, max_overhead, 0.01, 20,
           "maximum share of a process's CPU time, in percent (default 0.5)"),
    OPTION("host-bytes-per-s", "N", NUMBER, bytes_per_s, 0, 1 << 30,
           "limit of one host's stream; above it windows get longer (default 0: no limit)"),
    OPTION("breaker", "PERCENT", NUMBER, breaker, 1, 100,
           "stop trying further hosts while more than this share fails (default 20)"),
    OPTION("hosts-token-file", "FILE", TEXT, hosts_token_file, 0, 0, "access token for the hosts"),
    OPTION("hosts-ca", "FILE", TEXT, hosts_ca, 0, 0, "CA of the hosts' certificates; enables TLS"),
    OPTION("hosts-cert", "FILE", TEXT, hosts_cert, 0, 0, "client certificate for the hosts (PEM)"),
    OPTION("hosts-key", "FILE", TEXT, hosts_key, 0, 0, "private key of that certificate (PEM)"),
    OPTION("history-token-file", "FILE", TEXT, history_token_file, 0, 0,
           "access token for History; it needs the scope control"),
    OPTION("history-ca", "FILE", TEXT, history_ca, 0, 0,
           "CA of History's certificate; enables TLS"),
    OPTION("history-cert", "FILE", TEXT, history_cert, 0, 0,
           "client certificate for History (PEM)"),
    OPTION("history-key", "FILE", TEXT, history_key, 0, 0, "private key of that certificate (PEM)"),
    OPTION("history-name", "NAME", TEXT, history_name, 0, 0,
           "name that History's certificate must have (default: the address's host)"),
};

static const struct sonde_options options = {
    .usage = "sonde-collect --hosts SOURCE... --history ADDR... --spool DIR",
    .about = "The fleet controller: collects profiles from the sonded of many machines and stores "
             "them in History.",
    .examples =
        "  sonde-collect --hosts hosts.txt --history 127.0.0.1:20181 --spool /var/lib/sonde/spool\n"
        "  sonde-collect --hosts dns:sonde.example:20182 --history 127.0.0.1:20181 \\\n"
        "      --spool /var/lib/sonde/spool --budget budget.txt --hosts-token-file token\n",
    .table = table,
    .count = sizeof table / sizeof table[0],
};

/* What one side of the controller shows and trusts; NULL = nothing. */
struct access {
    struct token_file *token;
    struct tls_files *tls;
};

struct program {
    const struct settings *settings;
    Sonde__V1__CollectSettings collect;
    struct client_loop *loop;
    struct spool *spool;
    struct controller *controller;
    struct discovery *discovery;
    struct deliver *deliver;
    struct status_server *status;
    struct service *service;
    struct group *group;
    struct access hosts, history;
    struct stat budget_file;
};

static void log_on_stderr(const char *line) {
    log_report("sonde-collect", line);
}

/* ---- Files ---- */

static sonde_err open_access(struct access *access, const char *token_file,
                             const struct tls_files_options *tls, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (token_file)
        err = token_file_create(token_file, 1, log_on_stderr, &access->token, diag);
    if (!err && tls->ca_file)
        err = tls_files_create(tls, &access->tls, diag);
    return err;
}

static void close_access(struct access *access) {
    token_file_destroy(access->token);
    tls_files_destroy(access->tls);
}

static sonde_err open_files(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    const struct tls_files_options hosts = {.ca_file = settings->hosts_ca,
                                            .cert_file = settings->hosts_cert,
                                            .key_file = settings->hosts_key,
                                            .log = log_on_stderr};
    const struct tls_files_options history = {.ca_file = settings->history_ca,
                                              .cert_file = settings->history_cert,
                                              .key_file = settings->history_key,
                                              .log = log_on_stderr};
    sonde_err err = open_access(&program->hosts, settings->hosts_token_file, &hosts, diag);
    return err ? err : open_access(&program->history, settings->history_token_file, &history, diag);
}

static sonde_err read_budget(struct program *program, struct budget **budget,
                             struct sonde_diag *diag) {
    const char *path = program->settings->budget;
    struct sonde_buf file = {.limit = MAX_BUDGET};
    sonde_err err = SONDE_OK;
    if (path && stat(path, &program->budget_file) == 0)
        err = sonde_file_read(path, "budget file", SONDE_FILE_PLAIN, &file, diag);
    else if (path)
        err = sonde_fail_os(diag, errno, "%.200s cannot be read", path);
    if (!err)
        err = budget_create(file.data, path ? path : "", budget, diag);
    sonde_buf_finish(&file);
    return err;
}

/* A file with a mistake leaves the budget as it is. */
static void watch_budget(struct program *program) {
    const char *path = program->settings->budget;
    struct stat now;
    struct sonde_diag diag = {0};
    struct budget *budget = NULL;
    if (!path || stat(path, &now) != 0 ||
        (now.st_mtim.tv_sec == program->budget_file.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == program->budget_file.st_mtim.tv_nsec &&
         now.st_ino == program->budget_file.st_ino))
        return;
    sonde_err err = read_budget(program, &budget, &diag);
    if (err) {
        char line[256];
        snprintf(line, sizeof line, "the budget stays as it was: %s", sonde_diag_text(&diag, err));
        log_on_stderr(line);
    } else {
        controller_set_budget(program->controller, budget);
    }
}

/* ---- Parts ---- */

static void fill_settings(struct program *program) {
    const struct settings *from = program->settings;
    Sonde__V1__CollectSettings *to = &program->collect;
    sonde__v1__collect_settings__init(to);
    to->frequency_hz = (uint32_t)from->frequency_hz;
    to->window_s = (uint32_t)from->window_s;
    to->off_cpu_ms = (uint32_t)from->off_cpu_ms;
    to->heap = from->heap;
    to->guests_only = from->guests_only;
    to->host_totals = !from->no_totals;
    to->max_overhead = from->max_overhead / 100;
    to->max_bytes_per_s = from->bytes_per_s;
    to->keep_s = 86400;
}

static sonde_err start_controller(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    struct budget *budget = NULL;
    sonde_err err = read_budget(program, &budget, diag);
    if (err)
        return err;
    const struct controller_options from = {
        .name = settings->name,
        .session = settings->session,
        .token_file = program->hosts.token,
        .tls = program->hosts.tls,
        .pause_dir = settings->spool,
        .settings = &program->collect,
        .breaker_percent = (uint32_t)settings->breaker,
        .loop = program->loop,
        .spool = program->spool,
        .budget = budget,
        .log = log_on_stderr,
    };
    return controller_create(&from, &program->controller, diag);
}

static void on_unknown(void *context, const uint64_t *sources, size_t source_count,
                       const uint64_t *stacks, size_t stack_count) {
    struct program *program = context;
    controller_ask_stacks(program->controller, sources, source_count, stacks, stack_count);
}

static sonde_err start_deliver(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    const struct deliver_options from = {
        .spool = program->spool,
        .addresses = settings->history.items,
        .address_count = settings->history.count,
        .token_file = program->history.token,
        .tls = program->history.tls,
        .server_name = settings->history_name,
        .on_unknown = on_unknown,
        .context = program,
        .log = log_on_stderr,
    };
    sonde_err err = deliver_create(&from, &program->deliver, diag);
    if (!err)
        controller_set_deliver(program->controller, program->deliver);
    return err;
}

static void on_members(void *context, const char *const *members, size_t count) {
    struct program *program = context;
    controller_set_members(program->controller, members, count);
}

static sonde_err start_group(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    const struct group_options from = {
        .name = settings->group,
        .own = settings->name,
        .lease_s = (uint32_t)settings->lease_s,
        .addresses = settings->history.items,
        .address_count = settings->history.count,
        .token_file = program->history.token,
        .tls = program->history.tls,
        .server_name = settings->history_name,
        .on_change = on_members,
        .context = program,
        .log = log_on_stderr,
    };
    if (!settings->group)
        return SONDE_OK;
    controller_share(program->controller);
    return group_start(&from, &program->group, diag);
}

static sonde_err start_service(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    const struct service_options from = {
        .addresses = settings->grpc.items,
        .address_count = settings->grpc.count,
        .token_file = settings->token_file,
        .cert_file = settings->tls_cert,
        .key_file = settings->tls_key,
        .client_ca_file = settings->tls_client_ca,
        .log = log_on_stderr,
    };
    if (settings->grpc.count == 0)
        return SONDE_OK;
    return service_start(&from, program->controller, &program->service, diag);
}

static void on_hosts(void *context, const struct discovered_hosts *hosts) {
    struct program *program = context;
    controller_set_hosts(program->controller, hosts);
}

static sonde_err start(struct program *program, struct sonde_diag *diag) {
    const struct settings *settings = program->settings;
    const struct spool_options spool = {settings->spool, settings->spool_mib << 20, log_on_stderr};
    fill_settings(program);
    sonde_err err = open_files(program, diag);
    if (!err)
        err = spool_open(&spool, &program->spool, diag);
    if (!err)
        err = client_loop_create(NULL, NULL, &program->loop, diag);
    if (!err)
        err = start_controller(program, diag);
    if (!err)
        err = start_deliver(program, diag);
    if (!err && settings->metrics)
        err = status_start(settings->metrics, program->controller, &program->status, diag);
    if (!err)
        err = start_group(program, diag);
    if (!err)
        err = start_service(program, diag);
    if (!err && settings->hosts.count)
        err = discovery_start(settings->hosts.items, settings->hosts.count, on_hosts, program,
                              log_on_stderr, &program->discovery, diag);
    return err;
}

/* Gives History what the spool still has, for as long as that goes well; the rest is delivered
 * after the next start. */
static void deliver_rest(struct program *program) {
    const struct timespec tick = {0, CONTROLLER_TICK_MS * 1000000};
    struct controller_report report;
    for (int i = 0; i < DELIVER_REST_S * 1000 / CONTROLLER_TICK_MS; i++) {
        controller_report(program->controller, &report);
        if (report.lag_ns == 0 || report.deliver.trouble[0])
            return;
        nanosleep(&tick, NULL);
    }
}

static void stop(struct program *program) {
    status_stop(program->status);
    discovery_stop(program->discovery);
    if (program->controller)
        controller_stop(program->controller);
    group_stop(program->group);
    service_stop(program->service);
    if (program->controller && program->deliver)
        deliver_rest(program);
    if (program->spool)
        spool_wake(program->spool);
    if (program->controller)
        controller_set_deliver(program->controller, NULL);
    deliver_destroy(program->deliver);
    spool_close(program->spool);
    controller_destroy(program->controller);
    client_loop_destroy(program->loop);
    close_access(&program->hosts);
    close_access(&program->history);
}

/* Waits for a tick. SIGHUP of a service manager makes the files due; the budget and the list of
 * hosts are looked at all the time. */
static bool must_end(const sigset_t *awaited, const struct timespec *tick, bool has_terminal) {
    int taken = sigtimedwait(awaited, NULL, tick);
    if (taken != SIGHUP || has_terminal)
        return taken >= 0;
    service_manager_reloading();
    file_watch_look_now();
    service_manager_ready();
    return false;
}

static void run(struct program *program, const sigset_t *awaited) {
    const struct timespec tick = {0, CONTROLLER_TICK_MS * 1000000};
    char line[1024];
    int64_t line_due_s = 0;
    bool has_terminal = service_manager_has_terminal();
    if (program->status)
        printf("metrics: %s/metrics\n", status_url(program->status));
    for (size_t i = 0; program->service && service_address(program->service, i); i++)
        printf("grpc: %s\n", service_address(program->service, i));
    puts("sonde-collect: running");
    fflush(stdout);
    service_manager_ready();
    while (!must_end(awaited, &tick, has_terminal)) {
        int64_t now_s = clock_ms(CLOCK_MONOTONIC) / 1000;
        controller_tick(program->controller);
        watch_budget(program);
        if (line_due_s && now_s >= line_due_s) {
            controller_line(program->controller, line, sizeof line);
            log_on_stderr(line);
        }
        if (now_s >= line_due_s)
            line_due_s = now_s + LINE_S;
    }
    service_manager_stopping();
    exit_watchdog_start("sonde-collect", "the calls", 30);
}

/* ---- The program ---- */

static sonde_err check(const struct settings *settings, int argc, char **argv,
                       struct sonde_diag *diag) {
    if (argc > 1)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unexpected argument \"%.64s\"; see --help",
                          argv[1]);
    if (settings->hosts.count == 0 && settings->grpc.count == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--hosts is missing: a file with one host per line, dns:NAME:PORT or a "
                          "URL; or --grpc, where hosts register; see --help");
    if (settings->history.count == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--history is missing: the address of sonde-history; see --help");
    if (!settings->spool)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--spool is missing: a directory on a disk with room; see --help");
    return SONDE_OK;
}

/* A connection for each host. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv) {
    static char host[256];
    struct settings settings = {
        .spool_mib = 4096, .lease_s = GROUP_LEASE_S, .breaker = 20, .session = "fleet"};
    struct program program = {.settings = &settings};
    struct sonde_diag diag = {0};
    sigset_t awaited;
    gethostname(host, sizeof host - 1);
    settings.name = host;
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    if (err == SONDE_CANCELLED)
        return 0;
    if (!err)
        err = check(&settings, argc, argv, &diag);
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &awaited, NULL);
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    raise_file_limit();
    if (!err)
        err = start(&program, &diag);
    if (!err)
        run(&program, &awaited);
    stop(&program);
    if (!err)
        return 0;
    log_write(LOG_LINE_ERROR, "sonde-collect", sonde_diag_text(&diag, err));
    return sonde_error_info(err)->exit_code;
}
