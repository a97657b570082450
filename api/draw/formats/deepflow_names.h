/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepFlow's names for processes, threads and frames. Internal to api/draw/formats. */
#ifndef SONDE_API_DRAW_FORMATS_DEEPFLOW_NAMES_H
#define SONDE_API_DRAW_FORMATS_DEEPFLOW_NAMES_H

#include "api/draw/draw.h"

/* Bytes of a thread's name; the kernel limits a process's name to the same size. */
#define DEEPFLOW_COMM 15

struct deepflow_process {
    const char *service;                  /* the root's name */
    char service_comm[DEEPFLOW_COMM + 1]; /* its first bytes */
    char program_comm[DEEPFLOW_COMM + 1]; /* those of the executable; "" = unknown */
};

struct deepflow_process deepflow_process(const struct sonde_profile *profile,
                                         const struct sonde_draw_options *options);
/* Whether a sample was taken on the main thread of its process. Labels "pid" and "tid" decide if
 * the sample has both. Otherwise the name does: a thread without a name is the main thread, and so
 * is one that is named like the process, because exec names the main thread after the executable.
 * Threads that the process does not name inherit that name, so their samples also count there. */
bool deepflow_is_main_thread(const struct sonde_profile *profile, const struct sonde_sample *sample,
                             const struct deepflow_process *process);
/* The process that a sample of the host view belongs to: the name of its only location, which has
 * no address and no mapping. NULL for samples that have stacks. */
const char *deepflow_host_process(const struct sonde_profile *profile,
                                  const struct sonde_sample *sample);

/* Appends prefix and name, with ';' as ':'. */
void deepflow_put_name(struct sonde_buf *out, const char *prefix, const char *name);
/* Whether nothing is known about the location but its address. */
bool deepflow_is_unknown(const struct sonde_profile *profile,
                         const struct sonde_location *location);
/* Appends the name of a location's line: 0 is the innermost inlined function. A location without
 * lines has the name 0. */
void deepflow_put_line(struct sonde_buf *out, const struct sonde_profile *profile,
                       const struct sonde_location *location, uint32_t line);

#endif
