/* SPDX-License-Identifier: Apache-2.0
 *
 * From a perf.data to a profile like those of our own captures: the recorded processes and their
 * mappings are followed, copies of stacks are walked with our tables, and the frames are named.
 *
 * The command line may not link the unwinder and the symbol store. So it runs the service's own
 * program with PERF_DATA_ARGUMENT as its first argument, as the user who reads the file. That
 * process shares the tables of the user's data directory, needs no socket and no running service,
 * and ends with the profile. Thread safety: main thread only. */
#ifndef SONDE_SERVICE_ENGINE_PERF_DATA_PERF_DATA_H
#define SONDE_SERVICE_ENGINE_PERF_DATA_PERF_DATA_H

#include "api/profile/profile.h"

#define PERF_DATA_ARGUMENT "--perf-data"

struct perf_data_options {
    const char *data_dir; /* where tables are stored; NULL = nowhere */
    const char *worker;   /* as in symbol_options */
};

/* Reads the file behind fd. The caller destroys *profile. Errors: those of perf_file_open and
 * SONDE_TOO_LARGE, for a profile of over 1 GiB. */
SONDE_MUST_USE sonde_err perf_data_read(int fd, const struct perf_data_options *options,
                                        struct sonde_profile **profile, struct sonde_diag *diag);

/* Call it first in main. If the arguments ask for it, reads the file from stdin, writes a pprof
 * file to stdout, and exits with a sonde_err, whose sentence is on stderr. Otherwise returns. */
void perf_data_main(int argc, char **argv);

#endif
