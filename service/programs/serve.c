/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/serve.h"

#include "api/bytes.h"
#include "api/os/confine.h"
#include "api/os/exit_watchdog.h"
#include "api/os/file_watch.h"
#include "api/os/log.h"
#include "api/os/service_manager.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atomic_bool serve_is_verbose;

void serve_block_signals(sigset_t *awaited) {
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(awaited);
    sigaddset(awaited, SIGTERM);
    sigaddset(awaited, SIGINT);
    sigaddset(awaited, SIGHUP);
    pthread_sigmask(SIG_BLOCK, awaited, NULL);
}

/* A service must start even if the kernel or the container has no seccomp filters. */
static void confine(const char *program) {
    struct sonde_diag diag = {0};
    sonde_err err = confine_process(CONFINE_SERVICE, &diag);
    char line[256];
    snprintf(line, sizeof line, "running unconfined: %s", sonde_diag_text(&diag, err));
    if (err)
        log_write(LOG_LINE_WARNING, program, line);
}

static bool *find_verbose(const struct serve_options *options, void *settings) {
    const struct sonde_options *table = options->reload->options;
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->table[i].name, "verbose") == 0)
            return (bool *)((char *)settings + table->table[i].offset);
    return NULL;
}

static void on_change(void *context, const struct sonde_option *option) {
    const struct serve_options *options = context;
    char line[128];
    snprintf(line, sizeof line, "the setting %.40s has changed; restart %s to use it", option->name,
             options->program);
    if (strcmp(option->name, "verbose") != 0)
        log_write(LOG_LINE_WARNING, options->program, line);
}

static void reload(const struct serve_options *options) {
    struct sonde_diag diag = {0};
    char line[256];
    void *fresh = malloc(options->settings_size);
    file_watch_look_now();
    if (!fresh)
        return;
    memcpy(fresh, options->defaults, options->settings_size);
    sonde_err err = settings_reload(options->reload, options->loaded, fresh, on_change,
                                    (void *)(uintptr_t)options, &diag);
    if (!err)
        atomic_store(&serve_is_verbose, *find_verbose(options, fresh));
    free(fresh);
    snprintf(line, sizeof line, "reload: %s%s", err ? "the settings stay as they were: " : "done",
             err ? sonde_diag_text(&diag, err) : "");
    log_write(err ? LOG_LINE_WARNING : LOG_LINE_INFO, options->program, line);
}

static void wait_for_end(const struct serve_options *options, const sigset_t *awaited,
                         bool has_terminal) {
    int taken = 0;
    while (sigwait(awaited, &taken) != 0 || (taken == SIGHUP && !has_terminal)) {
        service_manager_reloading();
        reload(options);
        service_manager_ready();
    }
    service_manager_stopping();
}

void serve_until_signal(const struct serve_options *options, struct rpc_server *server,
                        const sigset_t *awaited) {
    bool has_terminal = service_manager_has_terminal();
    uint64_t grace_ms = options->grace_ms;
    const char *program = options->program;
    atomic_store(&serve_is_verbose, *find_verbose(options, (void *)(uintptr_t)options->loaded));
    confine(program);
    for (size_t i = 0; rpc_server_address(server, i); i++)
        printf("grpc: %s\n", rpc_server_address(server, i));
    fflush(stdout);
    service_manager_ready();
    wait_for_end(options, awaited, has_terminal);
    exit_watchdog_start(program, "running calls",
                        (uint32_t)(grace_ms + 999) / 1000 + EXIT_WATCHDOG_S);
    if (options->before_stop)
        options->before_stop(options->context);
    exit_watchdog_step("running calls");
    rpc_server_stop(server, (unsigned)grace_ms);
}

void serve_log_line(void *context, const char *line) {
    (void)context;
    log_write(LOG_LINE_INFO, NULL, line);
}

char *serve_debuginfod_urls(const struct sonde_option_list *list) {
    struct sonde_buf urls = {0};
    size_t len;
    for (size_t i = 0; i < list->count; i++) {
        bool is_env = strcmp(list->items[i], "env") == 0;
        const char *url = is_env ? getenv("DEBUGINFOD_URLS") : list->items[i];
        sonde_buf_printf(&urls, "%s ", url ? url : "");
    }
    return sonde_buf_take(&urls, &len);
}
