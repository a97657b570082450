/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/serve.h"

#include "api/bytes.h"
#include "api/os/confine.h"
#include "api/os/exit_watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (err)
        fprintf(stderr, "%s: running unconfined: %s\n", program, sonde_diag_text(&diag, err));
}

void serve_until_signal(const char *program, struct rpc_server *server, const sigset_t *awaited,
                        uint64_t grace_ms) {
    int taken;
    confine(program);
    for (size_t i = 0; rpc_server_address(server, i); i++)
        printf("grpc: %s\n", rpc_server_address(server, i));
    fflush(stdout);
    sigwait(awaited, &taken);
    exit_watchdog_start(program, "running calls",
                        (uint32_t)(grace_ms + 999) / 1000 + EXIT_WATCHDOG_S);
    rpc_server_stop(server, (unsigned)grace_ms);
}

void serve_log_line(void *context, const char *line) {
    (void)context;
    fprintf(stderr, "%s\n", line);
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
