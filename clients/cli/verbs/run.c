/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde run`: starts a private sonded and a gateway, then the command with libsonde.so preloaded,
 * so that the URL of the page is known before the server starts. With --socket it only starts the
 * command, which joins a running sonded. A command that libsonde.so cannot be loaded into runs
 * without it; it is forked first, so that its pid can be the gateway's target.
 *
 * The exit status is the command's, as in a shell. Sonde's own failures follow env and timeout: 125
 * if Sonde failed, 126 if the command is not executable, 127 if there is no such command. */
#include "api/settings/install.h"
#include "api/text/dynamic_linker.h"
#include "clients/cli/run/command.h"
#include "clients/cli/run/executable.h"
#include "clients/cli/run/private_sonded.h"
#include "clients/cli/run/rundir.h"
#include "clients/cli/run/supervise.h"
#include "clients/cli/run/without_guest.h"
#include "clients/cli/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_FAILURE    125
#define CANNOT_RUN     126
#define NO_COMMAND     127
#define DEFAULT_LISTEN "127.0.0.1:20180"
#define MAX_PAGE       192

struct settings {
    const char *name, *socket, *data_dir;
    const char *token_file, *tls_cert, *tls_key, *tls_client_ca;
    struct sonde_option_list http, grpc;
    bool heap, history, insecure, keep, verbose;
};

struct run {
    struct settings settings;
    struct rundir dir;
    struct supervisor supervisor;
    struct private_sonded sonded;
    struct helper gateway;
    struct command command;
    char gateway_path[PATH_MAX], libsonde_path[PATH_MAX];
    char preload[PATH_MAX]; /* value for LD_PRELOAD */
    char command_path[PATH_MAX];
    bool without_guest; /* libsonde.so cannot be loaded into the command */
    pid_t waiting;      /* the command's process, which waits at the barrier; 0 = none */
    int barrier[2];
    char target[16]; /* `waiting` as text */
    /* The gateway's addresses as it bound them, HOST:PORT or unix:PATH; "" = not known yet. */
    char pages[SONDE_OPTION_MAX_LIST][MAX_PAGE];
    bool may_choose_port; /* --http was not given */
    size_t page_count;    /* printed so far by the gateway with this pid */
    pid_t pages_of;
};

/* "127.0.0.1:80" of "http://127.0.0.1:80" */
static const char *without_scheme(const char *url) {
    const char *end = strstr(url, "://");
    return end ? end + 3 : url;
}

/* Prints "http: URL" once for each address. A restarted gateway uses the same ports. */
static void on_gateway_line(void *context, const char *line) {
    struct run *run = context;
    if (strncmp(line, "http: ", 6) != 0 || run->gateway.ready)
        return;
    if (run->pages_of != run->gateway.pid)
        run->page_count = 0;
    run->pages_of = run->gateway.pid;
    char *page = run->pages[run->page_count];
    if (strcmp(page, without_scheme(line + 6)) != 0)
        fprintf(stderr, "%s\n", line);
    snprintf(page, MAX_PAGE, "%s", without_scheme(line + 6));
    run->gateway.argv[2 + 2 * run->page_count++] = page;
    run->gateway.ready = run->page_count == run->settings.http.count;
}

/* Both helpers protect themselves alike. */
static void add_protection(const struct settings *settings, struct helper *helper) {
    const struct {
        const char *flag, *value;
    } options[] = {{"--token-file", settings->token_file},
                   {"--tls-cert", settings->tls_cert},
                   {"--tls-key", settings->tls_key},
                   {"--tls-client-ca", settings->tls_client_ca}};
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        if (!options[i].value)
            continue;
        helper_add(helper, options[i].flag);
        helper_add(helper, options[i].value);
    }
    if (settings->insecure)
        helper_add(helper, "--insecure");
}

static sonde_err prepare_sonded(struct run *run, struct sonde_diag *diag) {
    struct helper *sonded = &run->sonded.helper;
    sonde_err err = private_sonded_prepare(&run->sonded, &run->dir, "service.sock",
                                           &run->supervisor.mask, diag);
    if (err)
        return err;
    sonded->verbose = run->settings.verbose;
    for (size_t i = 0; i < run->settings.grpc.count; i++) {
        helper_add(sonded, "--grpc");
        helper_add(sonded, run->settings.grpc.items[i]);
    }
    if (run->settings.data_dir) {
        helper_add(sonded, "--data-dir");
        helper_add(sonded, run->settings.data_dir);
    }
    if (run->settings.history) {
        helper_add(sonded, "--history");
        helper_add(sonded, "--history-guests");
    }
    if (!run->settings.keep)
        helper_add(sonded, "--private");
    add_protection(&run->settings, sonded);
    return SONDE_OK;
}

static void prepare_gateway(struct run *run) {
    struct helper *gateway = &run->gateway;
    *gateway = (struct helper){.name = "sonde-gateway",
                               .mask = &run->supervisor.mask,
                               .verbose = run->settings.verbose,
                               .on_line = on_gateway_line,
                               .context = run,
                               .output = -1};
    helper_add(gateway, run->gateway_path);
    for (size_t i = 0; i < run->settings.http.count; i++) {
        helper_add(gateway, "--listen");
        helper_add(gateway, run->settings.http.items[i]);
    }
    helper_add(gateway, "--service");
    helper_add(gateway, run->sonded.address);
    if (run->waiting) {
        snprintf(run->target, sizeof run->target, "%d", (int)run->waiting);
        helper_add(gateway, "--target");
        helper_add(gateway, run->target);
    }
    add_protection(&run->settings, gateway);
}

static sonde_err wait_until_ready(struct run *run, struct helper *helper, struct sonde_diag *diag) {
    uint64_t until = helper_now_ms() + PRIVATE_SONDED_READY_MS;
    while (!helper->ready && helper->pid && !run->supervisor.stopped_by && helper_now_ms() < until)
        supervisor_step(&run->supervisor, (int)(until - helper_now_ms()));
    if (run->supervisor.stopped_by)
        return sonde_fail(diag, SONDE_CANCELLED, "stopped by a signal before the command started");
    if (helper->ready)
        return SONDE_OK;
    if (!helper->pid && helper_gave_reason(helper))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "%.500s", helper_last_line(helper));
    helper_print_last_lines(helper);
    return sonde_fail(diag, SONDE_UNAVAILABLE, "%s %s", helper->name,
                      helper->pid ? "did not become ready" : "exited during startup");
}

static sonde_err start_helper(struct run *run, struct helper *helper, struct sonde_diag *diag) {
    sonde_err err = helper_start(helper, diag);
    return err ? err : wait_until_ready(run, helper, diag);
}

/* If the default port is taken, for example by another `sonde run`, uses any free port. */
static sonde_err start_gateway(struct run *run, struct sonde_diag *diag) {
    sonde_err err = start_helper(run, &run->gateway, diag);
    if (err != SONDE_UNAVAILABLE || !run->may_choose_port || run->gateway.pid)
        return err;
    *diag = (struct sonde_diag){0};
    run->gateway.argv[2] = "127.0.0.1:0";
    return start_helper(run, &run->gateway, diag);
}

static sonde_err start_service(struct run *run, struct sonde_diag *diag) {
    sonde_err err = install_find(INSTALLED_GATEWAY, run->gateway_path, diag);
    if (!err)
        err = rundir_create(&run->dir, diag);
    if (!err)
        err = prepare_sonded(run, diag);
    if (err)
        return err;
    prepare_gateway(run);
    run->supervisor.helpers[0] = &run->sonded.helper;
    run->supervisor.helpers[1] = &run->gateway;
    run->supervisor.helper_count = 2;
    err = start_helper(run, &run->sonded.helper, diag);
    return err ? err : start_gateway(run, diag);
}

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void prepare_command(struct run *run, char **argv) {
    struct command *command = &run->command;
    command->verb = verb_run.name;
    command->argv = argv;
    command->mask = run->supervisor.mask;
    command->pipe_action = run->supervisor.pipe_action;
    if (run->without_guest)
        return;
    install_preload_path(run->libsonde_path, run->preload);
    command->libsonde = run->preload;
    command->name = run->settings.name;
    /* The dynamic linker gives the program its name. */
    command->first_name = dynamic_linker_is(argv[0]) ? "" : base_of(argv[0]);
    if (run->settings.heap)
        heap_options_choose(run->command_path, argv, &command->heap);
    if (command->heap.reason[0])
        fprintf(stderr, "sonde run: %s\n", command->heap.reason);
    command->socket = run->settings.socket ? run->settings.socket : run->sonded.guest_socket;
}

/* Forks the command before its helpers. It waits for a byte in the pipe, and ends without one. */
static sonde_err fork_waiting(struct run *run, struct sonde_diag *diag) {
    if (pipe2(run->barrier, O_CLOEXEC) != 0)
        return sonde_fail_os(diag, errno, "cannot create a pipe");
    run->command.barrier = run->barrier;
    run->waiting = command_start(&run->command);
    close(run->barrier[0]);
    if (run->waiting)
        return SONDE_OK;
    close(run->barrier[1]);
    return sonde_fail_os(diag, errno, "cannot fork");
}

/* Lets a command that waits start, or end. */
static void end_wait(struct run *run, bool is_start) {
    if (!run->waiting)
        return;
    while (is_start && write(run->barrier[1], "", 1) < 0 && errno == EINTR)
        continue;
    close(run->barrier[1]);
    if (!is_start)
        waitpid(run->waiting, NULL, 0);
}

static int run_command(struct run *run) {
    run->supervisor.command = run->waiting ? run->waiting : command_start(&run->command);
    if (run->supervisor.command == 0) {
        fprintf(stderr, "sonde run: cannot fork\n");
        return OWN_FAILURE;
    }
    end_wait(run, true);
    while (run->supervisor.command)
        supervisor_step(&run->supervisor, -1);
    return run->supervisor.status;
}

/* Returns 0, or the exit status if the command cannot run. */
static int check_command(struct run *run, const char *name, struct sonde_diag *diag) {
    struct sonde_diag obstacle_diag = {0};
    sonde_err err = executable_find(name, run->command_path, diag);
    if (err)
        return err == SONDE_NOT_FOUND ? NO_COMMAND : CANNOT_RUN;
    sonde_err obstacle = executable_check(run->command_path, &obstacle_diag);
    run->without_guest = obstacle != SONDE_OK;
    if (obstacle == SONDE_INVALID_ARGUMENT)
        run->command.path = run->command_path; /* a shell would read it as a script */
    if (obstacle)
        without_guest_explain(obstacle, obstacle_diag.text, run->settings.history);
    return 0;
}

/* Finds libsonde.so. Returns 0 or an exit status. */
static int find_libsonde(struct run *run, struct sonde_diag *diag) {
    if (install_find(INSTALLED_LIBSONDE, run->libsonde_path, diag))
        return OWN_FAILURE;
    if (!strpbrk(run->libsonde_path, ": "))
        return 0;
    sonde_fail(diag, SONDE_NOT_AVAILABLE,
               "LD_PRELOAD cannot name %.180s; install Sonde in a path without spaces and colons",
               run->libsonde_path);
    return OWN_FAILURE;
}

/* A wrapper hides which program it runs, so the user decides whether it may run unprofiled. */
static void warn_if_wrapped_cannot_load(char *const *argv) {
    struct sonde_diag diag = {0};
    if (executable_check_wrapped(argv, &diag) != SONDE_OK)
        fprintf(stderr, "sonde run: warning: not profiled from inside: %s\n", diag.text);
}

/* The guest waits for sonded, so that the command may run long without being profiled. */
static void warn_if_nobody_listens(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (len < sizeof address.sun_path)
        memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] != '@'));
    if (len >= sizeof address.sun_path ||
        (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) != 0))
        fprintf(stderr, "sonde run: nothing listens at %s yet; profiling begins when sonded does\n",
                path);
    if (fd >= 0)
        close(fd);
}

/* Starts a private sonded and gateway, unless the command joins others. */
static sonde_err start_helpers(struct run *run, struct sonde_diag *diag) {
    if (run->settings.socket)
        return SONDE_OK;
    sonde_err err = run->without_guest ? fork_waiting(run, diag) : SONDE_OK;
    return err ? err : start_service(run, diag);
}

static int start_and_run(struct run *run, char **argv, struct sonde_diag *diag) {
    int status = check_command(run, argv[0], diag);
    if (!status && !run->without_guest)
        status = find_libsonde(run, diag);
    if (status)
        return status;
    if (supervisor_init(&run->supervisor, diag))
        return OWN_FAILURE;
    if (!run->without_guest)
        warn_if_wrapped_cannot_load(argv);
    if (run->settings.socket && !run->without_guest)
        warn_if_nobody_listens(run->settings.socket);
    prepare_command(run, argv);
    if (start_helpers(run, diag)) {
        end_wait(run, false);
        status = run->supervisor.stopped_by ? 128 + run->supervisor.stopped_by : OWN_FAILURE;
    } else {
        status = run_command(run);
    }
    supervisor_finish(&run->supervisor);
    rundir_remove(&run->dir);
    return status;
}

static int on_run(int argc, char **argv) {
    static struct run run; /* static because it is too large for a small stack */
    int status;
    if (!cli_options(&verb_run, &run.settings, true, &argc, argv, &status))
        return status;
    if (argc < 2)
        return cli_usage(&verb_run, "no command given; use `sonde run -- COMMAND`");
    if (run.settings.socket && (run.settings.http.count || run.settings.grpc.count ||
                                run.settings.history || run.settings.keep))
        return cli_usage(
            &verb_run,
            "--socket (or SONDE_SOCKET) joins a running sonded and cannot be combined with "
            "--http, --grpc, --history or --keep");
    run.may_choose_port = run.settings.http.count == 0;
    if (run.may_choose_port)
        run.settings.http = (struct sonde_option_list){{DEFAULT_LISTEN}, 1};
    struct sonde_diag diag = {0};
    status = start_and_run(&run, argv + 1, &diag);
    if (diag.text[0])
        fprintf(stderr, "sonde run: %s\n", diag.text);
    return status;
}

static const struct sonde_option table[] = {
    {"name", 'n', "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, name), 0, 0,
     "name of the target (default: the name of its program)"},
    {"http", 0, "HOST:PORT", "SONDE_HTTP", SONDE_OPTION_LIST, offsetof(struct settings, http), 0, 0,
     "address of the page (default " DEFAULT_LISTEN ", or any free one)"},
    {"grpc", 0, "ADDR", NULL, SONDE_OPTION_LIST, offsetof(struct settings, grpc), 0, 0,
     "also serve gRPC at unix:PATH or HOST:PORT; repeatable"},
    {"heap", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, heap), 0, 0,
     "prepare a jemalloc with profiling (adds prof:true to MALLOC_CONF)"},
    {"history", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, history), 0, 0,
     "record the target continuously; `sonde history` shows any range of it"},
    {"socket", 's', "PATH", "SONDE_SOCKET", SONDE_OPTION_TEXT, offsetof(struct settings, socket), 0,
     0, "join the sonded that listens for guests here; start nothing else"},
    {"data-dir", 0, "DIR", "SONDE_DATA_DIR", SONDE_OPTION_TEXT, offsetof(struct settings, data_dir),
     0, 0, "data directory of sonded"},
    {"keep", 'k', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, keep), 0, 0,
     "keep saved captures at the end; `sonde captures` lists them"},
    {"token-file", 0, "FILE", "SONDE_TOKEN_FILE", SONDE_OPTION_TEXT,
     offsetof(struct settings, token_file), 0, 0,
     "access tokens for others, one per line: TOKEN [read,control]"},
    {"tls-cert", 0, "FILE", "SONDE_TLS_CERT", SONDE_OPTION_TEXT,
     offsetof(struct settings, tls_cert), 0, 0, "TLS: server certificate chain (PEM)"},
    {"tls-key", 0, "FILE", "SONDE_TLS_KEY", SONDE_OPTION_TEXT, offsetof(struct settings, tls_key),
     0, 0, "TLS: private key of the certificate (PEM)"},
    {"tls-client-ca", 0, "FILE", "SONDE_TLS_CLIENT_CA", SONDE_OPTION_TEXT,
     offsetof(struct settings, tls_client_ca), 0, 0,
     "TLS: accept clients with a certificate signed by this CA (PEM)"},
    {"insecure", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, insecure), 0, 0,
     "allow unauthenticated access from other machines"},
    {"verbose", 'v', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, verbose), 0, 0,
     "show the output of sonded and the gateway"},
};

static const struct sonde_options options = {
    .usage = "sonde run [--name NAME] [--http HOST:PORT] [--grpc ADDR] [--heap] -- COMMAND...",
    .about =
        "Runs COMMAND with libsonde.so preloaded, next to a private sonded and gateway.\n"
        "Prints the URL of the page on stderr and exits with COMMAND's status. If the library\n"
        "cannot be loaded (static, musl, set-id), COMMAND runs without it, sampled from outside.",
    .examples = "  sonde run -- redis-server --port 7000\n"
                "  sonde run --name web --http 127.0.0.1:8123 -- ./server --config x.conf\n"
                "  sonde run --heap -- ./server-with-jemalloc\n"
                "  sonde run --socket /run/sonde/guest.sock -- ./server\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_run = {"run", "run a command under Sonde", on_run, &options};
