/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap diff`: shows which code holds more memory than before and which holds less. Two files
 * are compared here. Saved dumps and the live heap are compared by sonded, which refuses pairs that
 * cannot be compared. */
#include "api/draw/diff.h"
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/verbs/heap/heap.h"
#include "clients/cli/verbs/source/source.h"

#include <string.h>

#define DIFF_TIMEOUT_MS 120000
#define NOW             "now"

struct request {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__Rendering rendering;
    Sonde__V1__HeapSnapshotRequest snapshot;
    Sonde__V1__GetHeapDumpRequest get_dump;
};

/* True for the name of a saved dump, six digits and ".heap". A file of that name can be given as
 * "./000001.heap". */
static bool is_saved_dump(const char *word) {
    return strspn(word, "0123456789") == 6 && strcmp(word + 6, ".heap") == 0;
}

static bool is_in_service(const char *word) {
    return is_saved_dump(word) || strcmp(word, NOW) == 0;
}

/* ---- In sonded ---- */

static const ProtobufCMessage *fill(struct request *request, const struct heap_diff *diff,
                                    const struct heap_settings *settings,
                                    enum sonde_format format) {
    service_select(diff->target, &request->selector);
    request->rendering = (Sonde__V1__Rendering)SONDE__V1__RENDERING__INIT;
    request->rendering.format = (Sonde__V1__Format)format;
    request->rendering.keep_allocator_frames = settings->allocator_frames;
    request->snapshot = (Sonde__V1__HeapSnapshotRequest)SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    request->snapshot.target = &request->selector;
    request->snapshot.rendering = &request->rendering;
    request->snapshot.growth_only = settings->growth_only;
    request->snapshot.delta_ms = (uint32_t)(settings->seconds * 1000 + 0.5);
    request->get_dump = (Sonde__V1__GetHeapDumpRequest)SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    request->get_dump.target = &request->selector;
    request->get_dump.rendering = &request->rendering;
    request->get_dump.growth_only = settings->growth_only;
    if (settings->type)
        request->snapshot.sample_type = request->get_dump.sample_type = (char *)settings->type;
    if (diff->base)
        request->snapshot.base_dump = request->get_dump.base_dump = (char *)diff->base;
    if (!diff->now || strcmp(diff->now, NOW) == 0)
        return &request->snapshot.base;
    request->get_dump.name = (char *)diff->now;
    return &request->get_dump.base;
}

static sonde_err fetch(const struct heap_diff *diff, const struct heap_settings *settings,
                       enum sonde_format format, struct output *output, struct sonde_diag *diag) {
    struct service service;
    struct capture_result result = {0};
    struct request request;
    const ProtobufCMessage *message = fill(&request, diff, settings, format);
    const struct client_method *method =
        message == &request.get_dump.base ? &client_get_heap_dump : &client_heap_snapshot;
    sonde_err err = heap_open(&service, settings, diag);
    if (!err)
        err = capture_receive(&service, method, message,
                              request.snapshot.delta_ms + DIFF_TIMEOUT_MS, output, &result, diag);
    service_close(&service);
    return err;
}

/* ---- Files ---- */

static bool has_names(const struct sonde_profile *profile) {
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++)
        if (sonde_profile_location(profile, id)->line_count > 0)
            return true;
    return sonde_profile_location_count(profile) == 0;
}

static sonde_err draw(const struct heap_diff *words, const struct sonde_profile *base,
                      const struct sonde_profile *now, const struct heap_settings *settings,
                      enum sonde_format format, struct output *output, struct sonde_diag *diag) {
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = now,
                                         .base_name = words->base,
                                         .now_name = words->now,
                                         .growth_only = settings->growth_only};
    struct sonde_draw_options options = {.type = settings->type};
    struct sonde_buf drawn = {0};
    if (has_names(base) != has_names(now))
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "one profile has function names and the other is a raw dump; record both as .pb.gz");
    sonde_err err = sonde_draw_difference(&diff, format, &options, &drawn, diag);
    if (!err)
        err = output_write(output, drawn.data, drawn.len, diag);
    sonde_buf_finish(&drawn);
    return err;
}

static sonde_err compare_files(const struct heap_diff *diff, const struct heap_settings *settings,
                               enum sonde_format format, struct output *output,
                               struct sonde_diag *diag) {
    struct sonde_profile *base = NULL, *now = NULL;
    sonde_err err = source_read(diff->base, &base, diag);
    if (!err)
        err = source_read(diff->now, &now, diag);
    if (!err)
        err = draw(diff, base, now, settings, format, output, diag);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return err;
}

/* ---- The arguments ---- */

/* Reads BASE [NEW [TARGET]], or [TARGET] with --duration. Returns NULL or an error message. */
static const char *read_words(const char *const *words, int count,
                              const struct heap_settings *settings, struct heap_diff *diff) {
    *diff = (struct heap_diff){0};
    if (settings->seconds > 0) {
        diff->target = words[0];
        return count > 1 ? "--duration takes only a TARGET" : NULL;
    }
    if (count == 0)
        return "nothing to compare; give a saved dump (see `sonde heap list`), two files, or "
               "--duration SECONDS";
    diff->base = words[0];
    diff->now = count > 1 ? words[1] : NOW;
    diff->target = count > 2 ? words[2] : NULL;
    if (!is_in_service(diff->base) && !is_in_service(diff->now))
        return NULL;
    if (is_saved_dump(diff->base) && is_in_service(diff->now))
        return NULL;
    return "cannot compare a saved dump with a file; download it first with `sonde heap dump "
           "--name NNNNNN.heap -o FILE.pb.gz`";
}

int heap_diff(const char *const *words, int count, const struct heap_settings *settings) {
    struct sonde_diag diag = {0};
    struct output output = {.fd = -1};
    struct heap_diff diff;
    const char *wrong = read_words(words, count, settings, &diff);
    if (wrong)
        return cli_usage(&verb_heap, "%s", wrong);
    const char *path = settings->output ? settings->output : "-";
    const struct sonde_format_info *format = sonde_format_info(SONDE_FORMAT_TEXT_TOP);
    if (settings->output || settings->format)
        format = format_choose(settings->format, path, SONDE_OF_HEAP);
    if (!format)
        return format_refuse(&verb_heap, settings->format, path, SONDE_OF_HEAP);
    sonde_err err = output_open(&output, path, &diag);
    if (!err && diff.base && !is_in_service(diff.base))
        err = compare_files(&diff, settings, format->format, &output, &diag);
    else if (!err)
        err = fetch(&diff, settings, format->format, &output, &diag);
    if (!err)
        err = output_commit(&output, &diag);
    output_finish(&output);
    return err ? cli_fail(&verb_heap, err, &diag) : 0;
}
