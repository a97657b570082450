/* SPDX-License-Identifier: Apache-2.0
 *
 * The opener: a process beside the sampler's worker that opens perf events with CAP_SYS_ADMIN.
 *
 * The kernels of Debian and Ubuntu have a patch: above kernel.perf_event_paranoid 2,
 * perf_event_open asks for CAP_SYS_ADMIN, and CAP_PERFMON does not count. That capability allows
 * far more than sampling, so it belongs to a process that can do nothing else: the opener has no
 * other capability, no descriptor but its socket, and a seccomp filter that leaves it
 * perf_event_open and messages (CONFINE_OPENER).
 *
 *     worker ── struct perf_event_spec ──▶ opener ── struct sampler_reply, descriptor ──▶ worker
 *
 * It runs only if the kernel has refused an event to the worker (sonde_sampler.c), and ends with
 * that worker. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_OPENER_H
#define SONDE_SERVICE_HOST_SAMPLER_OPENER_H

#include "service/host/rings/perf_event.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whether this process may start one: CAP_SYS_ADMIN is permitted to it. */
bool opener_is_possible(void);
/* Forks the opener. Returns its pid, and the socket to it, which the caller closes; -1: no process
 * can be made. It ends when the last copy of the socket is closed, or when this process ends. */
pid_t opener_start(int *socket);
/* Returns a descriptor or -errno; EPIPE: the opener is gone. */
int opener_perf_event(int socket, const struct perf_event_spec *spec);

#endif
