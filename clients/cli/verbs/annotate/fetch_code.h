/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the code of a function. sonded's own program does, in a process that serves nobody and ends
 * with the answer, with this user's rights. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_FETCH_CODE_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_FETCH_CODE_H

#include "clients/annotate/subject.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <sys/types.h>

struct fetch_request {
    /* The answer's addresses are those of their locations, one subject after the other. All have
     * the same file. */
    const struct subject *const *subjects;
    size_t subject_count;
    uint64_t function; /* start; 0 = any */
    pid_t pid;         /* that has the file mapped; 0 = none */
};

/* The caller frees *code with sonde__v1__code__free_unpacked. Errors: sonded's, with its sentence;
 * SONDE_NOT_AVAILABLE if it is not installed; SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err fetch_code(const struct fetch_request *request, Sonde__V1__Code **code,
                                    struct sonde_diag *diag);

#endif
