/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler: a process of its own (sonde-sampler) that holds the capabilities and nothing else.
 * It opens perf events, BPF programs and files of /proc and passes descriptors to sonded. It reads
 * fixed-size requests from sonded alone and parses nothing that another user wrote: what the opened
 * files contain is read by sonded, which gives up the sampler's capabilities as far as its own work
 * allows (confine_process).
 *
 *     sonded ── request (fixed size) ──▶ sonde-sampler ── reply, descriptors ──▶ sonded
 *
 * It is started by exec, so that file capabilities (setcap on sonde-sampler) and root both work,
 * drops all capabilities but those it needs, ends when sonded does, and works on if its worker
 * process dies. Without it, or if it has no capabilities, the same functions do their work in this
 * process. What was opened before is the kernel's and stays usable when the sampler dies.
 *
 * Thread safety: any thread; calls are answered one at a time, within SAMPLER_WAIT_MS. In each
 * function, sampler NULL means this process. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_SAMPLER_H
#define SONDE_SERVICE_HOST_SAMPLER_SAMPLER_H

#include "api/error.h"
#include "service/host/bpf/off_cpu_load.h"
#include "service/host/rings/perf_event.h"
#include "service/process/process_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SAMPLER_WAIT_MS 5000u

struct sampler;

/* Starts the program; NULL, "", or one that cannot be started: everything is done in this process.
 * Call it while this process may still gain capabilities by exec (before confine_process), and
 * before other threads start. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sampler_create(const char *program, struct sampler **sampler,
                                        struct sonde_diag *diag);
void sampler_destroy(struct sampler *sampler);

/* Whether the work is done by another process. */
bool sampler_is_separate(struct sampler *sampler);
/* The capabilities of the process that does the work, a bit each. */
uint64_t sampler_capabilities(struct sampler *sampler);
/* Why there is no separate sampler although one was asked for; "" = there is. */
void sampler_problem(struct sampler *sampler, char text[192]);

/* Whether the program with the capabilities was killed. It cannot be started with all of them
 * again: what is left of them, another program or this process uses. */
bool sampler_is_lost(struct sampler *sampler);
/* Is called once when that is noticed, with a sentence about it; on the thread of the call. */
void sampler_on_loss(struct sampler *sampler, void (*on_loss)(const char *problem));

/* These return a descriptor or -errno; EPIPE: the sampler died at this call, and the next one is
 * served again; ETIMEDOUT. */
int sampler_perf_event(struct sampler *sampler, const struct perf_event_spec *spec);
/* process_file_open_own in the sampler. The caller checks, before and after, that the pid is still
 * the process it means (service/process). */
int sampler_open(struct sampler *sampler, enum process_file file, pid_t pid, uint64_t start,
                 uint64_t end);
/* rings_create_event and process_file_opener, with the sampler as context. */
int sampler_create_event(void *sampler, const struct perf_event_spec *spec);
int sampler_open_file(void *sampler, enum process_file file, pid_t pid, uint64_t start,
                      uint64_t end);
/* off_cpu_loader, with the sampler as context: 0 or -errno. */
int sampler_load_off_cpu(void *sampler, const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]);
/* 0 if BPF programs may be loaded, else -errno. */
int sampler_try_bpf(struct sampler *sampler);
/* The path with which it was created, also if that program does not run; "" = none. */
const char *sampler_program(const struct sampler *sampler);
/* For tests: the pid of the started program; 0 = none. */
pid_t sampler_pid(struct sampler *sampler);
/* For tests: waits so long for answers instead of SAMPLER_WAIT_MS. */
void sampler_limit_wait(struct sampler *sampler, uint32_t wait_ms);

#endif
