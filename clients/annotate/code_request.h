/* SPDX-License-Identifier: Apache-2.0
 *
 * The question for the code of a function: where its samples are. Thread safety: any thread. */
#ifndef SONDE_CLIENTS_ANNOTATE_CODE_REQUEST_H
#define SONDE_CLIENTS_ANNOTATE_CODE_REQUEST_H

#include "api/hash_index.h"
#include "clients/annotate/subject.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct code_request_origin;

struct code_request {
    Sonde__V1__GetCodeRequest message; /* borrows from the subjects; without a target */
    Sonde__V1__SymbolMapping *mappings;
    struct code_request_origin *origins; /* of the mappings */
    struct hash_index index;             /* of origins */
};

/* The addresses are those of the subjects' locations, one subject after the other. All have the
 * same file. `function` is its start, 0 = any. The caller finishes *request, also after an error.
 * SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err code_request_init(struct code_request *request,
                                           const struct subject *const *subjects,
                                           size_t subject_count, uint64_t function,
                                           struct sonde_diag *diag);
void code_request_finish(struct code_request *request);

#endif
