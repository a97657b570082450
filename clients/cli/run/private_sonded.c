/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/private_sonded.h"

#include "api/os/paths.h"
#include "clients/cli/run/install.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STOP_MS 5000
#define LOOK_MS 10 /* how often to look at a process that has no pidfd */

/* Prints "grpc: ADDR" for addresses of --grpc. */
static void on_line(void *context, const char *line) {
    struct private_sonded *sonded = context;
    if (strncmp(line, "grpc: ", 6) != 0)
        return;
    if (strcmp(line + 6, sonded->address) == 0)
        sonded->helper.ready = true;
    else
        fprintf(stderr, "%s\n", line);
}

sonde_err private_sonded_prepare(struct private_sonded *sonded, const struct rundir *dir,
                                 const char *socket, const sigset_t *mask,
                                 struct sonde_diag *diag) {
    struct helper *helper = &sonded->helper;
    sonde_err err = install_find(INSTALLED_SONDED, sonded->program, diag);
    if (err)
        return err;
    *helper = (struct helper){
        .name = "sonded", .mask = mask, .on_line = on_line, .context = sonded, .output = -1};
    rundir_file(dir, "guest.sock", sonded->guest_socket);
    rundir_file(dir, socket, sonded->service_socket);
    snprintf(sonded->address, sizeof sonded->address, "unix:%s", sonded->service_socket);
    helper_add(helper, sonded->program);
    helper_add(helper, "--socket");
    helper_add(helper, sonded->guest_socket);
    helper_add(helper, "--grpc");
    helper_add(helper, sonded->address);
    return SONDE_OK;
}

static sonde_err wait_until_ready(struct helper *helper, int signals, struct sonde_diag *diag) {
    uint64_t now = helper_now_ms(), until = now + PRIVATE_SONDED_READY_MS;
    int status;
    for (; !helper->ready && now < until; now = helper_now_ms()) {
        struct pollfd waiting[] = {{helper->output, POLLIN, 0}, {signals, POLLIN, 0}};
        poll(waiting, 2, (int)(until - now));
        if (waiting[1].revents & POLLIN)
            return sonde_fail(diag, SONDE_CANCELLED, "interrupted");
        helper_read(helper);
        if (!helper->ready && helper->output < 0)
            break; /* it has exited */
    }
    if (helper->ready)
        return SONDE_OK;
    bool has_exited = helper_reap(helper, &status);
    if (helper_gave_reason(helper))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "sonded cannot start: %.400s",
                          helper_last_line(helper));
    return sonde_fail(diag, SONDE_UNAVAILABLE, "sonded %s%s%.120s",
                      has_exited || helper->output < 0 ? "exited during startup"
                                                       : "did not become ready",
                      helper->line_count ? ": " : "", helper_last_line(helper));
}

/* Whether sonded could create the directory or write to it. */
static bool is_usable(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    while (access(folder, F_OK) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return false;
        slash[slash == folder] = 0;
        if (slash == folder)
            break;
    }
    return access(folder, W_OK | X_OK) == 0;
}

/* Users of services often have a home that does not exist or that they may not write to. */
static void choose_data_dir(struct private_service *service) {
    if (getenv("SONDE_DATA_DIR") || is_usable(sonde_default_data_dir()))
        return;
    snprintf(service->data_dir, sizeof service->data_dir, "/tmp/sonde-%u/cache",
             (unsigned)geteuid());
    helper_add(&service->sonded.helper, "--data-dir");
    helper_add(&service->sonded.helper, service->data_dir);
}

sonde_err private_service_start(struct private_service *service, const sigset_t *mask, int signals,
                                struct sonde_diag *diag) {
    struct private_sonded *sonded = &service->sonded;
    sonde_err err = rundir_create(&service->dir, diag);
    if (!err)
        err = private_sonded_prepare(sonded, &service->dir, "grpc.sock", mask, diag);
    if (!err)
        choose_data_dir(service);
    if (!err)
        err = helper_start(&sonded->helper, diag);
    if (!err)
        err = wait_until_ready(&sonded->helper, signals, diag);
    if (err)
        private_service_stop(service);
    return err;
}

static bool ends_within(struct helper *helper, int timeout_ms) {
    int status, fd = helper->pid > 0 ? (int)syscall(SYS_pidfd_open, helper->pid, 0) : -1;
    uint64_t until = helper_now_ms() + (uint64_t)timeout_ms;
    while (helper->pid > 0 && !helper_reap(helper, &status) && helper_now_ms() < until) {
        helper_read(helper); /* so that it does not wait for a full pipe */
        struct pollfd waiting[] = {{fd, POLLIN, 0}, {helper->output, POLLIN, 0}};
        poll(waiting, 2, fd < 0 ? LOOK_MS : timeout_ms);
    }
    if (fd >= 0)
        close(fd);
    return helper->pid == 0;
}

void private_service_stop(struct private_service *service) {
    struct helper *helper = &service->sonded.helper;
    helper_signal(helper, SIGTERM);
    if (!ends_within(helper, STOP_MS)) {
        helper_signal(helper, SIGKILL);
        (void)ends_within(helper, STOP_MS);
    }
    rundir_remove(&service->dir);
}
