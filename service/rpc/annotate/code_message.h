/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for the code of a function, and answers, as messages. Any thread. */
#ifndef SONDE_SERVICE_RPC_ANNOTATE_CODE_MESSAGE_H
#define SONDE_SERVICE_RPC_ANNOTATE_CODE_MESSAGE_H

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/annotate/annotate.h"

#define CODE_MAX_WAIT_MS 60000u

/* The addresses of *request are the message's; its mappings are in the arena.
 * SONDE_INVALID_ARGUMENT, SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err code_request_from(const Sonde__V1__GetCodeRequest *message,
                                           struct sonde_arena *arena,
                                           struct annotate_request *request,
                                           struct sonde_diag *diag);
/* The message borrows from the answer and the arena. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err code_message_from(const struct annotate_answer *answer,
                                           struct sonde_arena *arena, Sonde__V1__Code *message);

#endif
