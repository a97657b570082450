/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of an output file, chosen by --format or by the file's extension. `subjects` is a mask
 * of enum sonde_subject: the kinds of profile that the verb can write. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_FORMATS_H
#define SONDE_CLIENTS_CLI_FORMATS_H

#include "api/draw/draw.h"
#include "clients/cli/cli.h"

#define FORMATS_ANY (SONDE_OF_CPU | SONDE_OF_ALLOCATIONS | SONDE_OF_HEAP)

#define FORMATS_OF_TWO (FORMATS_ANY | SONDE_OF_DIFFERENCE) /* of a verb that compares */

/* The help text of --format. */
#define FORMAT_HELP                                                       \
    "if no extension does: flamegraph callgraph proto top md collapsed\n" \
    "speedscope firefox grafana flamebearer deepflow legacy ..."

/* Returns the format called `name`, which may also be an extension ("svg"), or the one of the
 * extension of `path` if `name` is NULL. NULL if there is none, or none for these subjects. */
const struct sonde_format_info *format_choose(const char *name, const char *path,
                                              unsigned subjects);

/* Reports that format_choose returned NULL, and lists the formats. Returns the exit status. */
int format_refuse(const struct verb *verb, const char *name, const char *path, unsigned subjects);

#endif
