/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/file_limit.h"

#include <sys/resource.h>

sonde_err file_limit_raise(const char *program, struct sonde_diag *diag) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return SONDE_OK;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_max >= FILE_LIMIT_LEAST)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "this process may open %llu files, and %s needs %u or more: raise the limit "
                      "(ulimit -n, or LimitNOFILE= in the unit)",
                      (unsigned long long)limit.rlim_max, program, FILE_LIMIT_LEAST);
}
