/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler: a process of its own (sonde-sampler) that holds the capabilities and nothing
 * else. It opens perf events, BPF programs and files of /proc and passes descriptors to sonded.
 * It reads fixed-size requests from sonded alone and parses nothing that another user wrote:
 * what the opened files contain is read by sonded, which has no capabilities.
 *
 *     sonded ── request (fixed size) ──▶ sonde-sampler ── reply, descriptors ──▶ sonded
 *
 * It is started by exec, so that file capabilities (setcap on sonde-sampler) and root both work,
 * drops all capabilities but those it needs, ends when sonded does, and is started again if it
 * dies. Without it, or if it has no more rights than sonded, the same functions do their work in
 * this process.
 *
 * Thread safety: any thread; calls are answered one at a time, within SAMPLER_WAIT_MS. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_SAMPLER_H
#define SONDE_SERVICE_HOST_SAMPLER_SAMPLER_H

#include "api/error.h"
#include "service/host/bpf/off_cpu_load.h"
#include "service/host/rings/perf_event.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SAMPLER_WAIT_MS 2000u

struct sampler;

/* program NULL: everything is done in this process. */
SONDE_MUST_USE sonde_err sampler_create(const char *program, struct sampler **sampler,
                                        struct sonde_diag *diag);
void sampler_destroy(struct sampler *sampler);

/* These return a descriptor or -errno; EPIPE: the sampler died, and the next call starts
 * another. */
int sampler_perf_event(struct sampler *sampler, const struct perf_event_spec *spec);
enum sampler_file {
    SAMPLER_MAPS = 0, /* /proc/PID/maps */
    SAMPLER_EXE,      /* the file behind /proc/PID/exe */
    SAMPLER_ROOT,     /* the directory /proc/PID/root, O_PATH */
    SAMPLER_MAPPED,   /* /proc/PID/map_files/START-END: the file mapped there */
    SAMPLER_MEMORY,   /* /proc/PID/mem, read-only */
    SAMPLER_KALLSYMS, /* /proc/kallsyms; pid is ignored */
    SAMPLER_FILES
};
/* start and end: only for SAMPLER_MAPPED. The caller checks, before and after, that the pid is
 * still the process it means (service/process). */
int sampler_open(struct sampler *sampler, enum sampler_file file, pid_t pid, uint64_t start,
                 uint64_t end);
/* rings_create_event, with the sampler as context. */
int sampler_create_event(void *sampler, const struct perf_event_spec *spec);
/* off_cpu_load (an off_cpu_loader), with the sampler as context. */
int sampler_load_off_cpu(void *sampler, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]);

#endif
