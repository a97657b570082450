/* SPDX-License-Identifier: Apache-2.0
 *
 * A fleet of simulated hosts in one process, for tests and benches of sonde-collect:
 *
 *     simulator --hosts 1000 --seed 7 --list HOSTS.txt
 *
 * Writes the list of hosts for sonde-collect, prints its address, and then reads commands from
 * stdin, one per line, each answered by a line that begins with "ok" or "error" (commands.c). It
 * ends when stdin does. Time passes as fast as --speed says; with 0, only when told to. */
#include "api/settings/options.h"
#include "tests/fleet/simulator/commands.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TICK_MS 20

struct settings {
    uint64_t hosts, seed, services, stacks, processes, samples, keep_bytes, start_unix_s;
    double speed;
    const char *list;
};

#define NUMBER(name, field, low, high, help) \
    { name, 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, field), low, high, help }
static const struct sonde_option table[] = {
    NUMBER("hosts", hosts, 1, SERVE_MAX_HOSTS, "simulated hosts (default 100)"),
    NUMBER("seed", seed, 0, 1e15, "of everything that is random (default 1)"),
    NUMBER("services", services, 1, POOL_MAX_SERVICES, "services of the fleet (default 20)"),
    NUMBER("stacks", stacks, 1, 10000, "stacks of a service (default 500)"),
    NUMBER("processes", processes, 1, HOST_MAX_PROCESSES, "processes of a host (default 3)"),
    NUMBER("samples", samples, 1, 1000, "samples of a window at 19 Hz, on average (default 30)"),
    NUMBER("keep-bytes", keep_bytes, 1024, 1e12, "memory for kept windows (default 16 MiB)"),
    NUMBER("start", start_unix_s, 0, 1e11, "Unix time at which it begins (default a day ago)"),
    {"speed", 0, "X", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, speed), 0, 10000,
     "simulated seconds per second; 0 (the default) = time stands still"},
    {"list", 0, "PATH", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, list), 0, 0,
     "the file for the list of hosts"},
};
static const struct sonde_options options = {
    .usage = "simulator [--hosts N] --list PATH",
    .about = "Simulates hosts for sonde-collect, with sums that are known.",
    .table = table,
    .count = sizeof table / sizeof table[0]};

static void serve_init(struct serve *serve, const struct settings *settings) {
    struct host_fleet *fleet = &serve->fleet;
    size_t processes =
        settings->processes < settings->services ? settings->processes : settings->services;
    *serve =
        (struct serve){.count = settings->hosts, .now_unix_s = (int64_t)settings->start_unix_s};
    *fleet = (struct host_fleet){.seed = settings->seed,
                                 .processes = processes,
                                 .samples = (uint32_t)settings->samples,
                                 .keep_bytes = settings->keep_bytes};
    pool_init(&fleet->pool, settings->seed, settings->services, settings->stacks);
    truth_init(&fleet->truth, &fleet->pool);
    serve->hosts = calloc(serve->count, sizeof *serve->hosts);
    for (size_t i = 0; i < serve->count; i++)
        host_init(&serve->hosts[i].host, fleet, i, serve->now_unix_s);
}

static void serve_finish(struct serve *serve) {
    for (size_t i = 0; i < serve->count; i++)
        host_finish(&serve->hosts[i].host);
    free(serve->hosts);
    truth_finish(&serve->fleet.truth);
    pool_finish(&serve->fleet.pool);
}

static sonde_err write_list(const char *path, size_t count, int port, struct sonde_diag *diag) {
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return sonde_fail(diag, SONDE_IO, "the list of hosts cannot be written: %s",
                          path ? path : "--list is missing");
    for (size_t i = 0; i < count; i++)
        fprintf(file, "127.0.%zu.%zu:%d name=host-%05zu\n", i / SERVE_HOSTS_PER_NET,
                i % SERVE_HOSTS_PER_NET + 1, port, i);
    return fclose(file) == 0 ? SONDE_OK : sonde_fail(diag, SONDE_IO, "%s cannot be written", path);
}

/* Passes time at --speed; whole simulated seconds. */
static void pass_time(struct serve *serve, double speed, int64_t started_ms) {
    static int64_t passed_s = 0;
    int64_t due_s = (int64_t)((double)(serve_now_ms() - started_ms) / 1000 * speed);
    if (due_s > passed_s)
        serve_advance(serve, serve->now_unix_s + due_s - passed_s);
    passed_s = due_s;
}

static bool has_input(void) {
    struct pollfd polled = {0, POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
}

static void run(struct serve *serve, struct server *server, double speed) {
    int64_t started_ms = serve_now_ms();
    for (;;) {
        server_run(server, TICK_MS);
        if (has_input() && !commands_read(serve))
            return;
        if (speed > 0)
            pass_time(serve, speed, started_ms);
        serve_pump(serve);
    }
}

static sonde_err create_server(struct serve *serve, struct server **server,
                               struct sonde_diag *diag) {
    static const char *const addresses[] = {"0.0.0.0:0"};
    const struct server_options from = {
        .methods = &serve_method,
        .method_count = 1,
        .context = serve,
        .addresses = addresses,
        .address_count = 1,
        .is_open = true,
    };
    return server_create(&from, server, diag);
}

static sonde_err simulate(const struct settings *settings, struct sonde_diag *diag) {
    struct serve serve;
    struct server *server = NULL;
    serve_init(&serve, settings);
    sonde_err err = create_server(&serve, &server, diag);
    int port = err ? 0 : atoi(strrchr(server_address(server, 0), ':') + 1);
    if (!err)
        err = write_list(settings->list, serve.count, port, diag);
    if (!err) {
        printf("grpc: 127.0.0.1:%d\n", port);
        fflush(stdout);
        run(&serve, server, settings->speed);
    }
    server_destroy(server);
    serve_finish(&serve);
    return err;
}

int main(int argc, char **argv) {
    struct settings settings = {.hosts = 100,
                                .seed = 1,
                                .services = 20,
                                .stacks = 500,
                                .processes = 3,
                                .samples = 30,
                                .keep_bytes = HOST_KEEP_BYTES,
                                .start_unix_s = ((uint64_t)time(NULL) - 86400) / 600 * 600};
    struct sonde_diag diag = {0};
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    if (err == SONDE_CANCELLED)
        return 0;
    err = err ? err : simulate(&settings, &diag);
    if (err)
        fprintf(stderr, "simulator: %s\n", sonde_diag_text(&diag, err));
    return err ? 1 : 0;
}
