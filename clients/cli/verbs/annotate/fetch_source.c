/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/fetch_source.h"

#include "api/base/clock.h"
#include "clients/cli/verbs/source/run_program.h"

#include <stdlib.h>
#include <string.h>

#define SLOW_MS 5000
#define LIMIT_S 120

bool fetch_source(const char *build_id, const char *name, char path[PATH_MAX], bool *is_slow) {
    const char *servers = getenv("DEBUGINFOD_URLS");
    const char *const argv[] = {"debuginfod-find", "source", build_id, name, NULL};
    int64_t began_ms = clock_ms(CLOCK_MONOTONIC);
    *is_slow = false;
    if (!servers || !*servers || !*build_id || name[0] != '/')
        return false;
    bool found = run_program(argv, LIMIT_S, path, PATH_MAX) && path[0] == '/';
    path[strcspn(path, "\n")] = 0;
    *is_slow = !found && clock_ms(CLOCK_MONOTONIC) - began_ms > SLOW_MS;
    return found;
}
