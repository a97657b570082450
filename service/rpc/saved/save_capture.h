/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves a result on disk while it is sent to the client. In order: save_capture_begin on the loop
 * before the work starts, save_capture_write on the worker that renders the result,
 * save_capture_add on the loop, save_capture_report for the ResultStart, save_capture_finish when
 * the call is freed. Without save_capture_begin the others do nothing. */
#ifndef SONDE_SERVICE_RPC_SAVED_SAVE_CAPTURE_H
#define SONDE_SERVICE_RPC_SAVED_SAVE_CAPTURE_H

#include "service/rpc/core/call.h"
#include "service/rpc/saved/saved_captures.h"

#define SAVE_CAPTURE_MAX_NOTE 200

struct save_capture {
    struct saved_captures *saved; /* NULL = do not save */
    Sonde__V1__Capture metadata;  /* its strings live in the call's arena */
    bool is_session;              /* the same result may be fetched again */
    struct saved_capture_draft draft;
    Sonde__V1__Capture *reported; /* as saved, in the call's arena; NULL = not saved */
    sonde_err err;
    struct sonde_diag diag;
};

/* Notes the target, the kind (a literal) and the note. TARGET_* if there is no such target,
 * INVALID_ARGUMENT if the note is too long. */
SONDE_MUST_USE sonde_err save_capture_begin(struct save_capture *saving, struct rpc_call *call,
                                            const struct engine_selector *selector,
                                            const char *kind, const char *note,
                                            struct sonde_diag *diag);
/* Writes the file. Worker; the profile is borrowed. */
void save_capture_write(struct save_capture *saving, const struct sonde_profile *profile,
                        const struct engine_metadata *metadata);
void save_capture_add(struct save_capture *saving, struct rpc_call *call);
void save_capture_report(const struct save_capture *saving, Sonde__V1__ResultStart *start);
void save_capture_finish(struct save_capture *saving);

/* A copy whose strings live in the arena; NULL when out of memory. */
Sonde__V1__Capture *capture_metadata_dup(struct sonde_arena *arena,
                                         const Sonde__V1__Capture *metadata);

#endif
