/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap allocs`: writes what is allocated during a period, whether or not it is freed, to a
 * file. */
#include "clients/cli/capture.h"
#include "clients/cli/formats.h"
#include "clients/cli/verbs/heap/heap.h"

#include <string.h>
#include <unistd.h>

#define RENDER_TIMEOUT_MS 120000

static sonde_err receive(const char *target, const struct heap_settings *settings,
                         enum sonde_format format, struct output *output,
                         struct capture_result *result, struct sonde_diag *diag) {
    struct service service;
    Sonde__V1__TargetSelector selector;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    service_select(target, &selector);
    rendering.format = (Sonde__V1__Format)format;
    rendering.keep_allocator_frames = settings->allocator_frames;
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)((settings->seconds > 0 ? settings->seconds : 10) * 1000 + 0.5);
    request.sample_bytes = settings->sample;
    request.probability = settings->probability;
    request.no_progress = !isatty(2);
    if (settings->type)
        request.sample_type = (char *)settings->type;
    sonde_err err = heap_open(&service, settings, diag);
    if (!err)
        err = capture_receive(&service, &client_capture_allocs, &request.base,
                              request.duration_ms + RENDER_TIMEOUT_MS, output, result, diag);
    service_close(&service);
    return err;
}

int heap_allocs(const char *const *words, int count, const struct heap_settings *settings) {
    struct sonde_diag diag = {0};
    struct output output = {.fd = -1};
    struct capture_result result = {0};
    const char *path = settings->output ? settings->output : "sonde.svg";
    const struct sonde_format_info *format =
        format_choose(settings->format, path, SONDE_OF_ALLOCATIONS);
    if (count > 1)
        return cli_usage(&verb_heap, "unexpected argument \"%s\"", words[1]);
    if (!format)
        return format_refuse(&verb_heap, settings->format, path, SONDE_OF_ALLOCATIONS);
    sonde_err err = output_open(&output, path, &diag);
    if (!err)
        err = receive(words[0], settings, format->format, &output, &result, &diag);
    if (!err)
        err = output_commit(&output, &diag);
    output_finish(&output);
    if (err)
        return cli_fail(&verb_heap, err, &diag);
    bool to_stdout = strcmp(path, "-") == 0;
    if (!to_stdout && result.samples > 0)
        capture_print_summary(path, &result);
    else if (result.samples == 0)
        fprintf(stderr, "%s: no allocations sampled in %.1f s; try a smaller --sample\n", path,
                result.duration_ms / 1000.0);
    return 0;
}
