/* SPDX-License-Identifier: Apache-2.0
 *
 * A result on its way into the store, beside its way to the client: keep_begin on the loop before
 * the work starts, keep_write on the worker that draws it, keep_add on the loop, keep_tell in the
 * ResultStart, keep_finish when the call is freed. All but keep_begin do nothing unless it ran. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_SAVE_CAPTURE_H
#define SONDE_SERVICE_RPC_CAPTURES_SAVE_CAPTURE_H

#include "service/rpc/captures/saved_captures.h"
#include "service/rpc/core/call.h"

#define KEEP_MAX_NOTE 200

struct keep {
    struct kept *kept;        /* NULL: it is not to be kept */
    Sonde__V1__Capture facts; /* its strings live in the call's arena */
    bool is_session;          /* the same result may come again */
    struct kept_draft draft;
    Sonde__V1__Capture *told; /* what became of it, in the call's arena; NULL: it is not kept */
    sonde_err err;
    struct sonde_diag diag;
};

/* Who and what: kind is a literal. TARGET_* when there is no such target, INVALID_ARGUMENT for a
 * note that is too long. */
SONDE_MUST_USE sonde_err keep_begin(struct keep *keep, struct rpc_call *call,
                                    const struct engine_selector *selector, const char *kind,
                                    const char *note, struct sonde_diag *diag);
/* Worker; profile is borrowed. */
void keep_write(struct keep *keep, const struct sonde_profile *profile,
                const struct engine_facts *facts);
void keep_add(struct keep *keep, struct rpc_call *call);
void keep_tell(const struct keep *keep, Sonde__V1__ResultStart *start);
void keep_finish(struct keep *keep);

/* A copy whose strings live in arena; NULL when out of memory. */
Sonde__V1__Capture *keep_dup_facts(struct sonde_arena *arena, const Sonde__V1__Capture *facts);

#endif
