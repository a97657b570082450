/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/saved/save_capture.h"

#include "service/rpc/base/text.h"
#include "service/rpc/core/server_state.h"

#include <string.h>

sonde_err save_capture_begin(struct save_capture *saving, struct rpc_call *call,
                             const struct engine_selector *selector, const char *kind,
                             const char *note, struct sonde_diag *diag) {
    struct rpc_server *server = rpc_call_server(call);
    struct sonde_arena *arena = rpc_call_arena(call);
    struct engine_target target;
    if (strlen(note) > SAVE_CAPTURE_MAX_NOTE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "note: %zu bytes are too long; at most %d",
                          strlen(note), SAVE_CAPTURE_MAX_NOTE);
    sonde_err err = engine_find(server->engine, selector, &target, diag);
    if (err)
        return err;
    saving->saved = rpc_call_is_limited(call) ? NULL : server->saved; /* it evicts others' */
    sonde__v1__capture__init(&saving->metadata);
    saving->metadata.target = sonde_arena_dup(arena, target.name, strlen(target.name));
    saving->metadata.target = (char *)rpc_text(arena, saving->metadata.target);
    saving->metadata.uuid = sonde_arena_dup(arena, target.uuid, strlen(target.uuid));
    saving->metadata.uuid = (char *)rpc_text(arena, saving->metadata.uuid);
    saving->metadata.pid = target.pid;
    saving->metadata.kind = (char *)kind;
    saving->metadata.note = (char *)rpc_text(arena, note);
    return SONDE_OK;
}

/* A session whose target never ran has a result with nothing in it: do not save that. */
static bool is_worth_it(const struct save_capture *saving) {
    return saving->saved && (!saving->is_session || saving->metadata.start_unix_ns != 0);
}

void save_capture_write(struct save_capture *saving, const struct sonde_profile *profile,
                        const struct engine_metadata *metadata) {
    int64_t ran_ns = metadata->end_unix_ns - metadata->start_unix_ns;
    if (metadata->event != SONDE_ON_CPU) /* for sessions it is only known now */
        saving->metadata.kind = (char *)(uintptr_t)sonde_event_kind(metadata->event);
    saving->metadata.start_unix_ns = metadata->start_unix_ns;
    saving->metadata.duration_ms = ran_ns > 0 ? (uint32_t)((ran_ns + 500000) / 1000000) : 0;
    saving->metadata.samples = metadata->samples;
    saving->metadata.dropped = metadata->dropped;
    saving->metadata.frequency_hz =
        sonde_event_is_counted(metadata->event) ? (uint32_t)(metadata->frequency_hz + 0.5)
        : metadata->period_ns
            ? (uint32_t)((1000000000u + metadata->period_ns / 2) / metadata->period_ns)
            : 0;
    if (is_worth_it(saving))
        saving->err = saved_capture_write(saving->saved, profile, &saving->metadata, &saving->draft,
                                          &saving->diag);
}

Sonde__V1__Capture *capture_metadata_dup(struct sonde_arena *arena,
                                         const Sonde__V1__Capture *metadata) {
    Sonde__V1__Capture *copy = sonde_arena_alloc(arena, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *metadata;
    copy->target = sonde_arena_dup(arena, metadata->target, strlen(metadata->target));
    copy->uuid = sonde_arena_dup(arena, metadata->uuid, strlen(metadata->uuid));
    copy->kind = sonde_arena_dup(arena, metadata->kind, strlen(metadata->kind));
    copy->note = sonde_arena_dup(arena, metadata->note, strlen(metadata->note));
    return copy->target && copy->uuid && copy->kind && copy->note ? copy : NULL;
}

void save_capture_add(struct save_capture *saving, struct rpc_call *call) {
    const Sonde__V1__Capture *added = NULL;
    if (!is_worth_it(saving) || saving->err)
        return;
    if (saving->is_session && (added = saved_captures_find_equal(saving->saved, &saving->metadata)))
        saved_capture_draft_drop(&saving->draft);
    else
        saving->err = saved_captures_add(saving->saved, &saving->draft, &added, &saving->diag);
    if (!saving->err)
        saving->reported = capture_metadata_dup(rpc_call_arena(call), added);
    rpc_call_note(call, " kept=%llu",
                  saving->reported ? (unsigned long long)saving->reported->id : 0);
}

void save_capture_report(const struct save_capture *saving, Sonde__V1__ResultStart *start) {
    if (saving->reported) {
        start->capture_id = saving->reported->id;
        start->capture = saving->reported;
    } else if (saving->err) {
        start->keep_error = (char *)sonde_diag_text(&saving->diag, saving->err);
    }
}

void save_capture_finish(struct save_capture *saving) {
    saved_capture_draft_drop(&saving->draft);
}
