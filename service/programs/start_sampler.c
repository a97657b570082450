/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/start_sampler.h"

#include "api/os/log.h"
#include "service/host/sampler/capabilities.h"
#include "service/process/process_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "sonde-sampler"

const char *default_sampler(void) {
    static char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof PROGRAM);
    path[len > 0 ? len : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        strcpy(slash + 1, PROGRAM);
    return slash ? path : "";
}

static void explain(void) {
    char line[128];
    snprintf(line, sizeof line, "keeping all capabilities: %s", strerrordesc_np(errno));
    log_write(LOG_LINE_WARNING, "sonded", line);
}

sonde_err start_sampler(const char *program, struct sampler **sampler, struct sonde_diag *diag) {
    sonde_err err = sampler_create(program, sampler, diag);
    if (err || !sampler_is_separate(*sampler))
        return err;
    process_file_set_opener(sampler_open_file, *sampler);
    if (!capabilities_keep(capabilities_of_sonded())) /* a container can refuse capset */
        explain();
    return SONDE_OK;
}

void stop_sampler(struct sampler *sampler) {
    process_file_set_opener(NULL, NULL);
    sampler_destroy(sampler);
}
