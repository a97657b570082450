/* SPDX-License-Identifier: Apache-2.0
 *
 * RenderProfile: a worker reads and draws a file that the caller brought. The file stays in the
 * request, which lives as long as the call. */
#include "service/rpc/answer/document.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"

#include "api/draw/diff.h"
#include "api/profile/diff/diff.h"
#include "api/profile/heap/memory.h"
#include "api/profile/pprof/pprof.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE     (RPC_MAX_REQUEST_BYTES - 4096) /* the rest is for the other fields */
#define MAX_UNPACKED (128u << 20)                   /* and of the profile in memory */

struct drawing {
    struct rpc_document document;
    const Sonde__V1__RenderProfileRequest *request;
    struct rpc_rendering rendering;
    uint64_t samples; /* written by the worker, then read by the loop, like the next */
    uint32_t duration_ms;
};

/* ---- Worker ---- */

static sonde_err read_file(const struct drawing *drawing, struct sonde_profile **profile,
                           struct sonde_diag *diag) {
    const ProtobufCBinaryData *file = &drawing->request->profile;
    struct sonde_diag detail = {0};
    sonde_err err = sonde_pprof_read((struct sonde_slice){(const char *)file->data, file->len},
                                     MAX_UNPACKED, profile, &detail);
    if (err == SONDE_CORRUPT)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "profile: not a pprof file: %s",
                          sonde_diag_text(&detail, err));
    if (err == SONDE_TOO_LARGE)
        return sonde_fail(diag, err,
                          "profile: %s; at most %u MiB are unpacked here: use `sonde draw FILE`",
                          sonde_diag_text(&detail, err), MAX_UNPACKED >> 20);
    return err ? sonde_fail(diag, err, "profile: %s", sonde_diag_text(&detail, err)) : SONDE_OK;
}

/* Replaces the profile by one without the allocator's frames. */
static sonde_err trim(const Sonde__V1__Rendering *wanted, struct sonde_profile **profile,
                      struct sonde_diag *diag) {
    struct sonde_profile *trimmed;
    bool is_built_in = false;
    if ((wanted && wanted->keep_allocator_frames) || sonde_draw_subject(*profile) == SONDE_OF_CPU)
        return SONDE_OK;
    sonde_err err =
        sonde_memory_trim(*profile, sonde_memory_of_allocator, &is_built_in, &trimmed, diag);
    if (err)
        return err;
    sonde_profile_destroy(*profile);
    *profile = trimmed;
    return SONDE_OK;
}

/* "legacy" is another format for each kind of profile, and a caller may not know the kind. */
static sonde_err choose_format(struct drawing *drawing, const struct sonde_profile *profile,
                               bool has_base, struct sonde_diag *diag) {
    enum sonde_subject subject = sonde_draw_subject(profile);
    const struct sonde_format_info *asked = drawing->rendering.info;
    unsigned subjects = subject | (has_base ? SONDE_OF_DIFFERENCE : 0u);
    const struct sonde_format_info *info =
        sonde_format_from_output_of(sonde_slice_of(asked->output), (enum sonde_subject)subjects);
    if (!info)
        return rpc_refuse_format(asked, subject, diag);
    drawing->rendering.info = info;
    drawing->rendering.format = info->format;
    return SONDE_OK;
}

static sonde_err draw_difference(struct drawing *drawing, const struct sonde_profile *base,
                                 const struct sonde_profile *now, struct sonde_diag *diag) {
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = now,
                                         .growth_only = drawing->request->growth_only,
                                         .normalise = drawing->request->normalize};
    return sonde_draw_difference(&diff, drawing->rendering.format, &drawing->rendering.options,
                                 &drawing->document.bytes, diag);
}

static sonde_err draw_one(struct drawing *drawing, const struct sonde_profile *profile,
                          struct sonde_diag *diag) {
    struct sonde_draw_options options = rpc_draw_options(profile, &drawing->rendering.options);
    return sonde_draw(profile, drawing->rendering.format, &options, &drawing->document.bytes, diag);
}

static sonde_err draw_profile(struct drawing *drawing, const struct sonde_profile *profile,
                              struct sonde_diag *diag) {
    struct sonde_profile *base, *now;
    sonde_err err = sonde_profile_split_base(profile, &base, &now);
    if (err)
        return err;
    const struct sonde_profile *shown = base ? now : profile;
    drawing->samples = sonde_profile_sample_count(shown);
    drawing->duration_ms = (uint32_t)(sonde_profile_info(shown)->duration_ns / 1000000);
    err = choose_format(drawing, profile, base != NULL, diag);
    if (!err)
        err = base ? draw_difference(drawing, base, now, diag) : draw_one(drawing, profile, diag);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return err;
}

static void draw(struct rpc_document *document) {
    struct drawing *drawing = container_of(document, struct drawing, document);
    struct sonde_profile *profile;
    document->err = read_file(drawing, &profile, &document->diag);
    if (!document->err)
        document->err = trim(drawing->request->rendering, &profile, &document->diag);
    if (!document->err)
        document->err = draw_profile(drawing, profile, &document->diag);
    sonde_profile_destroy(profile);
}

/* ---- Loop ---- */

static void describe(struct rpc_document *document, Sonde__V1__ResultStart *start) {
    const struct drawing *drawing = container_of(document, struct drawing, document);
    start->media_type = (char *)drawing->rendering.info->media_type;
    start->samples = drawing->samples;
    start->duration_ms = drawing->duration_ms;
    rpc_call_note(document->call, " stacks=%llu", (unsigned long long)start->samples);
}

static void release(struct rpc_call *call) {
    struct drawing *drawing = rpc_call_state(call);
    rpc_document_finish(&drawing->document);
    free(drawing);
}

static sonde_err check_request(const Sonde__V1__RenderProfileRequest *request,
                               struct rpc_rendering *rendering, struct sonde_diag *diag) {
    if (request->profile.len == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "profile: empty; send a pprof file, compressed with gzip or not");
    if (request->profile.len > MAX_FILE)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "profile: larger than %u bytes; use `sonde draw FILE`", MAX_FILE);
    sonde_err err = rpc_rendering_any(request->rendering, rendering, diag);
    rendering->options.type = request->sample_type[0] ? request->sample_type : NULL;
    return err;
}

void rpc_render_profile(struct rpc_call *call, const ProtobufCMessage *message) {
    static const struct rpc_call_events events = {rpc_document_on_sent, NULL, NULL, release};
    static const struct rpc_document_events document_events = {.draw = draw, .describe = describe};
    const Sonde__V1__RenderProfileRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    struct rpc_rendering rendering;
    sonde_err err = check_request(request, &rendering, &diag);
    struct drawing *drawing = err ? NULL : calloc(1, sizeof *drawing);
    if (!drawing) {
        rpc_finish(call, err ? err : SONDE_OUT_OF_MEMORY, &diag);
        return;
    }
    drawing->request = request;
    drawing->rendering = rendering;
    rpc_document_init(&drawing->document, call, &document_events);
    rpc_call_set(call, &events, drawing);
    rpc_document_start(&drawing->document);
}
