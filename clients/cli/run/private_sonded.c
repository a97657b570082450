/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/run/private_sonded.h"

#include "api/os/paths.h"
#include "api/settings/install.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        err = helper_wait_ready(&sonded->helper, PRIVATE_SONDED_READY_MS, signals, diag);
    if (err)
        private_service_stop(service);
    return err;
}

void private_service_stop(struct private_service *service) {
    helper_stop(&service->sonded.helper);
    rundir_remove(&service->dir);
}
