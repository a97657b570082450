/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of program a process runs, for advice (api/program_advice.h); engine.h has the rest.
 * Reads files: not on the engine's thread. */
#ifndef SONDE_SERVICE_ENGINE_TARGETS_NAME_ADVICE_H
#define SONDE_SERVICE_ENGINE_TARGETS_NAME_ADVICE_H

#include "api/program_advice.h"
#include "service/process/process_identity.h"

/* PROGRAM_STATIC, PROGRAM_STATIC_GO, or PROGRAM_OTHER if it is dynamic or cannot be read. */
enum program_kind static_kind(const struct process_identity *process);

#endif
