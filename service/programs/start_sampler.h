/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the sampler (service/host/sampler) for sonded and gives up the capabilities that only the
 * sampler needs from then on. Call it before other threads start, because each thread has its own
 * capabilities. */
#ifndef SONDE_SERVICE_PROGRAMS_START_SAMPLER_H
#define SONDE_SERVICE_PROGRAMS_START_SAMPLER_H

#include "api/error.h"
#include "service/host/sampler/sampler.h"

/* The program beside this one; static text. */
const char *default_sampler(void);
/* program "": none, and this process keeps its capabilities. A program that is missing or has no
 * capabilities is the same. If the kernel does not take the capabilities back, a line on stderr
 * says so. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err start_sampler(const char *program, struct sampler **sampler,
                                       struct sonde_diag *diag);
void stop_sampler(struct sampler *sampler);

#endif
