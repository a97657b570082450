/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/save_capture.h"

#include "service/rpc/core/server_state.h"
#include "service/rpc/core/text.h"

#include <string.h>

sonde_err keep_begin(struct keep *keep, struct rpc_call *call,
                     const struct engine_selector *selector, const char *kind, const char *note,
                     struct sonde_diag *diag) {
    struct rpc_server *server = rpc_call_server(call);
    struct sonde_arena *arena = rpc_call_arena(call);
    struct engine_target target;
    if (strlen(note) > KEEP_MAX_NOTE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "note: %zu bytes are too long; at most %d",
                          strlen(note), KEEP_MAX_NOTE);
    sonde_err err = engine_find(server->engine, selector, &target, diag);
    if (err)
        return err;
    keep->kept = server->kept;
    sonde__v1__capture__init(&keep->facts);
    keep->facts.target = sonde_arena_dup(arena, target.name, strlen(target.name));
    keep->facts.target = (char *)rpc_text(arena, keep->facts.target);
    keep->facts.uuid = sonde_arena_dup(arena, target.uuid, strlen(target.uuid));
    keep->facts.uuid = (char *)rpc_text(arena, keep->facts.uuid);
    keep->facts.pid = target.pid;
    keep->facts.kind = (char *)kind;
    keep->facts.note = (char *)rpc_text(arena, note);
    return SONDE_OK;
}

/* A session that never ran has a result, but nothing was captured. */
static bool is_worth_it(const struct keep *keep) {
    return keep->kept && (!keep->is_session || keep->facts.start_unix_ns != 0);
}

void keep_write(struct keep *keep, const struct sonde_profile *profile,
                const struct engine_facts *facts) {
    static const char *const kinds[ENGINE_MODES] = {
        [ENGINE_WALL] = "wall", [ENGINE_OFF_CPU] = "off-cpu"};
    int64_t ran_ns = facts->end_unix_ns - facts->start_unix_ns;
    if (kinds[facts->mode]) /* of a session it is known now only */
        keep->facts.kind = (char *)kinds[facts->mode];
    keep->facts.start_unix_ns = facts->start_unix_ns;
    keep->facts.duration_ms = ran_ns > 0 ? (uint32_t)((ran_ns + 500000) / 1000000) : 0;
    keep->facts.samples = facts->samples;
    keep->facts.dropped = facts->dropped;
    keep->facts.frequency_hz =
        facts->period_ns ? (uint32_t)((1000000000u + facts->period_ns / 2) / facts->period_ns) : 0;
    if (is_worth_it(keep))
        keep->err = kept_write(keep->kept, profile, &keep->facts, &keep->draft, &keep->diag);
}

Sonde__V1__Capture *keep_dup_facts(struct sonde_arena *arena, const Sonde__V1__Capture *facts) {
    Sonde__V1__Capture *copy = sonde_arena_alloc(arena, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *facts;
    copy->target = sonde_arena_dup(arena, facts->target, strlen(facts->target));
    copy->uuid = sonde_arena_dup(arena, facts->uuid, strlen(facts->uuid));
    copy->kind = sonde_arena_dup(arena, facts->kind, strlen(facts->kind));
    copy->note = sonde_arena_dup(arena, facts->note, strlen(facts->note));
    return copy->target && copy->uuid && copy->kind && copy->note ? copy : NULL;
}

void keep_add(struct keep *keep, struct rpc_call *call) {
    const Sonde__V1__Capture *added = NULL;
    if (!is_worth_it(keep) || keep->err)
        return;
    if (keep->is_session && (added = kept_find_equal(keep->kept, &keep->facts)))
        kept_draft_drop(&keep->draft);
    else
        keep->err = kept_add(keep->kept, &keep->draft, &added, &keep->diag);
    if (!keep->err)
        keep->told = keep_dup_facts(rpc_call_arena(call), added);
    rpc_call_note(call, " kept=%llu", keep->told ? (unsigned long long)keep->told->id : 0);
}

void keep_tell(const struct keep *keep, Sonde__V1__ResultStart *start) {
    if (keep->told) {
        start->capture_id = keep->told->id;
        start->capture = keep->told;
    } else if (keep->err) {
        start->keep_error = (char *)sonde_diag_text(&keep->diag, keep->err);
    }
}

void keep_finish(struct keep *keep) {
    kept_draft_drop(&keep->draft);
}
