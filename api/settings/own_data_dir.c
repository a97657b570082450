/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/own_data_dir.h"

#include "api/os/own_folder.h"
#include "api/os/paths.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Also what is above it: a new user has no ~/.cache. */
static bool make_directories(const char *path) {
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

const char *own_data_dir(void) {
    const char *chosen = getenv("SONDE_DATA_DIR");
    const char *dir = chosen && chosen[0] ? chosen : sonde_default_data_dir();
    if (own_folder_check(dir, "--data-dir", NULL) != SONDE_OK)
        return NULL;
    return make_directories(dir) ? dir : NULL;
}
