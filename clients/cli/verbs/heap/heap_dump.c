/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/heap/heap.h"

#include <inttypes.h>
#include <string.h>

#define DUMP_TIMEOUT_MS 120000

struct dump {
    Sonde__V1__TargetSelector selector;
    Sonde__V1__Rendering rendering;
    Sonde__V1__HeapSnapshotRequest snapshot;
    Sonde__V1__GetHeapDumpRequest get_dump;
};

static void fill(struct dump *dump, const char *target, const struct heap_settings *settings,
                 enum sonde_format format) {
    heap_select(settings, target, &dump->selector);
    dump->rendering = (Sonde__V1__Rendering)SONDE__V1__RENDERING__INIT;
    dump->rendering.format = (Sonde__V1__Format)format;
    dump->rendering.keep_allocator_frames = settings->allocator_frames;
    dump->snapshot = (Sonde__V1__HeapSnapshotRequest)SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    dump->snapshot.target = &dump->selector;
    dump->snapshot.rendering = &dump->rendering;
    dump->snapshot.all_one = settings->all_one;
    dump->snapshot.older_than_ms = (uint64_t)(settings->older_than_s * 1000 + 0.5);
    dump->get_dump = (Sonde__V1__GetHeapDumpRequest)SONDE__V1__GET_HEAP_DUMP_REQUEST__INIT;
    dump->get_dump.target = &dump->selector;
    dump->get_dump.rendering = &dump->rendering;
    dump->get_dump.all_one = settings->all_one;
    dump->get_dump.ended = settings->ended;
    if (settings->name)
        dump->get_dump.name = (char *)settings->name;
    if (settings->type)
        dump->get_dump.sample_type = dump->snapshot.sample_type = (char *)settings->type;
}

static sonde_err receive(const char *target, const struct heap_settings *settings,
                         const struct sonde_format_info *format, const char *path,
                         struct capture_result *result, struct sonde_diag *diag) {
    struct service service;
    struct output output = {.fd = -1};
    struct dump dump;
    fill(&dump, target, settings, format->format);
    sonde_err err = heap_open(&service, settings, diag);
    if (!err)
        err = output_open(&output, path, diag);
    if (!err)
        err = capture_receive(&service,
                              settings->name ? &client_get_heap_dump : &client_heap_snapshot,
                              settings->name ? &dump.get_dump.base : &dump.snapshot.base,
                              DUMP_TIMEOUT_MS, &output, result, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    service_close(&service);
    return err;
}

static void print_json(const char *path, uint64_t bytes) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "{\"file\":");
    json_text(&text, path);
    sonde_buf_printf(&text, ",\"bytes\":%" PRIu64 "}", bytes);
    if (!text.failed)
        puts(text.data);
    sonde_buf_finish(&text);
}

/* The default name is that of the saved dump, or sonde.heap for the live heap. */
static const char *choose_path(const struct heap_settings *settings) {
    if (settings->output)
        return settings->output;
    return settings->name && !strchr(settings->name, '/') ? settings->name : "sonde.heap";
}

/* Right after `heap on`, a file without samples is no fault. */
static void print_summary(const char *path, const struct sonde_format_info *format,
                          const struct capture_result *result) {
    fprintf(stderr, "%s: %" PRIu64 " bytes\n", path, result->bytes);
    if (format->is_drawn && result->samples == 0)
        fputs(
            "no samples: nothing that was allocated and sampled since `sonde heap on` is in use\n",
            stderr);
}

int heap_dump(const char *const *words, int count, const struct heap_settings *settings) {
    struct sonde_diag diag = {0};
    struct capture_result result = {0};
    const char *path = choose_path(settings);
    const struct sonde_format_info *format = format_choose(settings->format, path, SONDE_OF_HEAP);
    if (!format)
        return format_refuse(&verb_heap, settings->format, path, SONDE_OF_HEAP);
    if (settings->ended && !settings->name)
        return cli_usage(&verb_heap, "--ended needs --name; see `sonde heap list --ended`");
    sonde_err err = receive(words[0], settings, format, path, &result, &diag);
    if (err)
        return cli_fail(&verb_heap, err, &diag);
    if (settings->json)
        print_json(path, result.bytes);
    else
        print_summary(path, format, &result);
    return 0;
}
