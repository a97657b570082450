/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source/perf_data.h"

#include "clients/cli/run/sonded_once.h"

#include <string.h>
#include <unistd.h>

#define MAGIC_BYTES 8u

bool perf_data_is_one(struct sonde_slice start) {
    static const char *const magics[] = {"PERFILE2", "2ELIFREP", "PERFFILE"};
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (start.len >= MAGIC_BYTES && memcmp(start.data, magics[i], MAGIC_BYTES) == 0)
            return true;
    return false;
}

bool perf_data_is_file(int fd) {
    char start[MAGIC_BYTES];
    ssize_t len = pread(fd, start, sizeof start, 0);
    return len > 0 && perf_data_is_one((struct sonde_slice){start, (size_t)len});
}

sonde_err perf_data_convert(int fd, struct sonde_buf *pprof, struct sonde_diag *diag) {
    return sonded_once("--perf-data", fd, pprof, diag);
}

sonde_err perf_data_convert_bytes(struct sonde_slice file, struct sonde_buf *pprof,
                                  struct sonde_diag *diag) {
    return sonded_once_bytes("--perf-data", file, pprof, diag);
}
