/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture of growth: keeps the page faults that were sampled, looks at the process's pages when
 * it begins and when it ends, and then counts the memory that is there now and was not before, by
 * the stack of the fault that brought it (service/host/resident/grown.h). The outermost frame of a
 * stack is the kind of memory.
 *
 *     first look ──▶ faults are added ── capture closes ──▶ last look ── last faults ──▶ divided
 *
 * A worker looks and divides. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_GROWTH_H
#define SONDE_SERVICE_ENGINE_CAPTURE_GROWTH_H

#include "service/engine/capture/cpu_capture.h"

/* Faults of one capture, 7 MiB. With more, a random half is dropped, and those that stay count
 * twice. */
#define GROWTH_MAX_SAMPLES (1u << 17)

struct growth;

/* NULL when out of memory. */
struct growth *growth_create(struct cpu_capture *capture);
/* Any thread; no look is running. */
void growth_destroy(struct growth *growth);
/* The capture has begun: starts the first look, after which its time counts. */
void growth_begin(struct growth *growth);
/* Adds a sampled fault, which stands for capture->pending faults. SONDE_OUT_OF_MEMORY: the user has
 * no more room. */
SONDE_MUST_USE sonde_err growth_add(struct growth *growth, const struct count_key *key,
                                    const struct spent *spent);
/* The capture closes: starts the last look. */
void growth_end(struct growth *growth);
/* The last fault was added. False: cpu_capture_conclude is called again later. */
bool growth_conclude(struct growth *growth);
/* What growth_conclude has come to. After an error the capture has no result. */
sonde_err growth_error(const struct growth *growth, struct sonde_diag *diag);
/* Adds what has grown to the parts of the capture's window; once. */
void growth_count(struct growth *growth, struct report_growth *report);

#endif
