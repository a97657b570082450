/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/request/params.h"

#include "service/rpc/base/text.h"

#include <stdio.h>
#include <string.h>

#define MAX_TITLE         200
#define MAX_FUNCTION      1024
#define MAX_OWNER         64
#define MAX_NAME          63
#define UUID_LEN          32
#define PROGRESS_MS       500
#define MIN_WINDOW_MS     50
#define MAX_WINDOW_MS     60000
#define DEFAULT_WINDOW_MS 1000
#define DEFAULT_MS        10000
#define DEFAULT_ALLOCS_MS 30000
#define MAX_PID           INT32_MAX
#define LEAST_OVERHEAD    0.0001

sonde_err rpc_number(const char *name, uint64_t sent, uint64_t fallback, uint64_t low,
                     uint64_t high, uint32_t *value, struct sonde_diag *diag) {
    uint64_t number = sent ? sent : fallback;
    if (number < low || number > high)
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT, "%s: \"%llu\" is not a whole number from %llu to %llu",
            name, (unsigned long long)sent, (unsigned long long)low, (unsigned long long)high);
    *value = (uint32_t)number;
    return SONDE_OK;
}

static sonde_err check_length(const char *name, const char *text, size_t most,
                              struct sonde_diag *diag) {
    if (strlen(text) <= most)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: %zu bytes are too long; at most %zu", name,
                      strlen(text), most);
}

static sonde_err read_selector(const Sonde__V1__TargetSelector *message,
                               struct engine_selector *selector, struct sonde_diag *diag) {
    *selector = (struct engine_selector){.name = "", .uuid = ""};
    if (!message)
        return SONDE_OK;
    if (message->pid < 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "target.pid: \"%d\" is not a whole number from 1 to %d", message->pid,
                          MAX_PID);
    sonde_err err = check_length("target.name", message->name, MAX_NAME, diag);
    if (!err)
        err = check_length("target.uuid", message->uuid, UUID_LEN, diag);
    *selector =
        (struct engine_selector){.name = message->name, .pid = message->pid, .uuid = message->uuid};
    return err;
}

sonde_err rpc_selector(const Sonde__V1__TargetSelector *message, struct engine_selector *selector,
                       struct sonde_diag *diag) {
    sonde_err err = read_selector(message, selector, diag);
    if (!err && message && message->all)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "target.all: several processes as one target have CPU profiles only");
    return err;
}

sonde_err rpc_selector_of_many(const Sonde__V1__TargetSelector *message, const uid_t *owner,
                               struct engine_selector *selector, struct sonde_diag *diag) {
    sonde_err err = read_selector(message, selector, diag);
    selector->owner = owner;
    if (err || !message || !message->all)
        return err;
    if (*message->uuid)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "target.all and target.uuid exclude each other");
    if (*message->name && message->pid)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "target.all: give a name or a pid, not both");
    selector->all = true;
    return SONDE_OK;
}

static bool is_cpu_format(enum sonde_format format) {
    switch (format) {
    case SONDE_FORMAT_JEMALLOC:
    case SONDE_FORMAT_LEGACY_HEAP:
    case SONDE_FORMAT_HEAPSNAPSHOT:
    case SONDE_FORMAT_HEAPPROFILE:
    case SONDE_FORMAT_CHANGES:
        return false;
    default:
        return true;
    }
}

sonde_err rpc_rendering_options(const Sonde__V1__Rendering *message,
                                struct sonde_draw_options *options, struct sonde_diag *diag) {
    if (!message)
        return SONDE_OK;
    options->title = *message->title ? message->title : NULL;
    options->split_threads = message->split_threads;
    options->gzip_level = message->raw ? -1 : 0;
    options->max_rows = message->max_rows;
    options->full_names = message->full_names;
    options->hide_idle = message->hide_idle;
    options->by_total = message->by_total;
    options->function = *message->function ? message->function : NULL;
    sonde_err err = check_length("rendering.function", message->function, MAX_FUNCTION, diag);
    return err ? err : check_length("rendering.title", message->title, MAX_TITLE, diag);
}

sonde_err rpc_rendering_any(const Sonde__V1__Rendering *message, struct rpc_rendering *rendering,
                            struct sonde_diag *diag) {
    memset(rendering, 0, sizeof *rendering);
    rendering->format = SONDE_FORMAT_PPROF;
    if (message && message->format != SONDE__V1__FORMAT__FORMAT_UNSPECIFIED)
        rendering->format = (enum sonde_format)message->format;
    rendering->info = sonde_format_info(rendering->format);
    if (!rendering->info || !rendering->info->is_drawn)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.format: %d is not available for captures; see enum Format",
                          (int)rendering->format);
    return rpc_rendering_options(message, &rendering->options, diag);
}

sonde_err rpc_rendering(const Sonde__V1__Rendering *message, struct rpc_rendering *rendering,
                        struct sonde_diag *diag) {
    if (message && !is_cpu_format((enum sonde_format)message->format))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.format: %d is not available for CPU profiles; see enum Format",
                          (int)message->format);
    return rpc_rendering_any(message, rendering, diag);
}

void rpc_rendering_of_many(struct rpc_rendering *rendering) {
    if (rendering->format != SONDE_FORMAT_SPEEDSCOPE)
        rendering->options.split_threads = false;
}

sonde_err rpc_rendering_allocs(const Sonde__V1__Rendering *message, const char *sample_type,
                               struct rpc_rendering *rendering, struct sonde_diag *diag) {
    sonde_err err = rpc_rendering_any(message, rendering, diag);
    if (err)
        return err;
    if (!(rendering->info->offered & SONDE_OF_ALLOCATIONS))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.format: %d is not available for allocations; see enum Format",
                          (int)rendering->format);
    rendering->options.type = *sample_type ? sample_type : NULL;
    return SONDE_OK;
}

struct sonde_draw_options rpc_draw_options(const struct sonde_profile *profile,
                                           const struct sonde_draw_options *wanted) {
    const struct sonde_draw_options defaults = sonde_draw_defaults(profile);
    struct sonde_draw_options options = *wanted;
    options.type_index = defaults.type_index;
    options.palette = defaults.palette;
    return options;
}

static sonde_err check_frequency(uint32_t sent, struct engine_cpu_spec *spec,
                                 struct sonde_diag *diag) {
    return rpc_number("frequency_hz", sent, RPC_DEFAULT_FREQUENCY_HZ, 1, RPC_MAX_FREQUENCY_HZ,
                      &spec->frequency_hz, diag);
}

sonde_err rpc_refuse_format(const struct sonde_format_info *info, enum sonde_subject subject,
                            struct sonde_diag *diag) {
    static const char *const measured[] = {[SONDE_OF_CPU] = "of time",
                                           [SONDE_OF_ALLOCATIONS] = "of allocations",
                                           [SONDE_OF_HEAP] = "of a heap"};
    size_t count, used = 0;
    const struct sonde_format_info *table = sonde_format_table(&count);
    char list[240] = "";
    for (size_t i = 0; i < count && used < sizeof list; i++)
        if (table[i].is_drawn && (table[i].offered & subject))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     table[i].output);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "output: a profile %s cannot be written as %s; use one of %s",
                      measured[subject], info->output, list);
}

static sonde_err check_source(Sonde__V1__Source source, struct engine_cpu_spec *spec,
                              struct sonde_diag *diag) {
    if ((unsigned)source >= ENGINE_SOURCES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "source: \"%d\" is not one of 0 (AUTOMATIC), 1 (HOST), 2 (GUEST)",
                          (int)source);
    if (source == SONDE__V1__SOURCE__GUEST && spec->target.all)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "source: several processes as one target are sampled from outside: use "
                          "auto or host");
    spec->source = (enum engine_source)source;
    return SONDE_OK;
}

static sonde_err check_mode(Sonde__V1__CpuMode mode, double max_overhead,
                            struct engine_cpu_spec *spec, struct sonde_diag *diag) {
    if ((unsigned)mode >= SONDE_MODES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "mode: \"%d\" is not one of 0 (CPU), 1 (WALL), 2 (OFF_CPU)", (int)mode);
    bool is_share = max_overhead >= LEAST_OVERHEAD && max_overhead <= 1;
    if (max_overhead != 0 && !is_share)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "max_overhead: \"%g\" is not a share from %g to 1", max_overhead,
                          LEAST_OVERHEAD);
    spec->event = (enum sonde_event_id)mode;
    spec->max_overhead = max_overhead;
    return SONDE_OK;
}

static sonde_err refuse_event(const char *name, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "event: \"%.60s\" is not " SONDE_COUNTED_NAMES,
                      name);
}

/* A counted event takes the place of the mode. */
static sonde_err check_event(const char *name, uint64_t period, struct engine_cpu_spec *spec,
                             struct sonde_diag *diag) {
    enum sonde_event_id event = sonde_event_find_counted(sonde_slice_of(name));
    if (!*name)
        return period ? sonde_fail(diag, SONDE_INVALID_ARGUMENT, "period: only with event")
                      : SONDE_OK;
    if (event == SONDE_EVENTS)
        return refuse_event(name, diag);
    if (spec->event != SONDE_ON_CPU)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "event: not together with mode");
    spec->event = event;
    spec->every = period;
    return SONDE_OK;
}

sonde_err rpc_capture_spec(const Sonde__V1__CaptureCpuRequest *request, const uid_t *owner,
                           struct engine_cpu_spec *spec, struct rpc_rendering *rendering,
                           struct sonde_diag *diag) {
    *spec = (struct engine_cpu_spec){.max_samples = request->max_samples,
                                     .progress_ms = request->no_progress ? 0 : PROGRESS_MS};
    sonde_err err = rpc_selector_of_many(request->target, owner, &spec->target, diag);
    if (!err)
        err = rpc_number("duration_ms", request->duration_ms, DEFAULT_MS, 1, RPC_MAX_DURATION_MS,
                         &spec->duration_ms, diag);
    if (!err)
        err = check_frequency(request->frequency_hz, spec, diag);
    if (!err)
        err = check_mode(request->mode, request->max_overhead, spec, diag);
    if (!err)
        err = check_event(request->event, request->period, spec, diag);
    if (!err)
        err = check_source(request->source, spec, diag);
    if (!err)
        err = rpc_rendering(request->rendering, rendering, diag);
    if (!err && spec->target.all)
        rpc_rendering_of_many(rendering);
    if (!err && request->as_contentions && spec->event != SONDE_OFF_CPU)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "as_contentions: only for mode OFF_CPU");
    if (!err && rendering->options.hide_idle && spec->event != SONDE_WALL &&
        spec->event != SONDE_OFF_CPU)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "rendering.hide_idle: only for mode WALL and OFF_CPU");
    if (!err && request->locks && spec->event != SONDE_WALL && spec->event != SONDE_OFF_CPU)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "locks: only for mode WALL and OFF_CPU");
    spec->has_locks = request->locks;
    if (!err && request->only_locks && !request->as_contentions)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "only_locks: only with as_contentions");
    return err;
}

sonde_err rpc_stream_spec(const Sonde__V1__StreamCpuRequest *request, const uid_t *owner,
                          struct engine_cpu_spec *spec, struct sonde_diag *diag) {
    memset(spec, 0, sizeof *spec);
    sonde_err err = rpc_selector_of_many(request->target, owner, &spec->target, diag);
    if (!err)
        err = rpc_number("window_ms", request->window_ms, DEFAULT_WINDOW_MS, MIN_WINDOW_MS,
                         MAX_WINDOW_MS, &spec->window_ms, diag);
    if (!err)
        err = check_frequency(request->frequency_hz, spec, diag);
    if (!err)
        err = check_mode(request->mode, request->max_overhead, spec, diag);
    if (!err)
        err = check_source(request->source, spec, diag);
    return err;
}

sonde_err rpc_session_spec(const Sonde__V1__StartCpuRequest *request, const uid_t *owner,
                           struct engine_cpu_spec *spec, uint32_t *lease_ms,
                           struct sonde_diag *diag) {
    *spec = (struct engine_cpu_spec){.max_samples = request->max_samples};
    sonde_err err = rpc_selector_of_many(request->target, owner, &spec->target, diag);
    if (!err)
        err = check_frequency(request->frequency_hz, spec, diag);
    if (!err)
        err = check_mode(request->mode, request->max_overhead, spec, diag);
    if (!err)
        err = check_source(request->source, spec, diag);
    if (!err)
        err = rpc_number("lease_ms", request->lease_ms, RPC_MAX_DURATION_MS, 1, RPC_MAX_DURATION_MS,
                         lease_ms, diag);
    if (!err)
        err = check_length("owner", request->owner, MAX_OWNER, diag);
    return err;
}

/* The average bytes between samples, or a probability instead. */
static sonde_err check_density(uint64_t sample_bytes, double probability,
                               struct engine_allocs_spec *spec, struct sonde_diag *diag) {
    if (sample_bytes > ENGINE_ALLOCS_MAX)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "sample_bytes: \"%llu\" is not a whole number from 1 to %u",
                          (unsigned long long)sample_bytes, ENGINE_ALLOCS_MAX);
    if (!(probability >= 0 && probability <= 1)) /* also false for NaN */
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "probability: \"%g\" is not a number above 0 and up to 1", probability);
    if (sample_bytes && probability > 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "set sample_bytes or probability, not both");
    spec->sample_bytes = sample_bytes;
    spec->probability = probability;
    return SONDE_OK;
}

sonde_err rpc_allocs_spec(const Sonde__V1__CaptureAllocsRequest *request,
                          struct engine_allocs_spec *spec, struct rpc_rendering *rendering,
                          struct sonde_diag *diag) {
    *spec = (struct engine_allocs_spec){.progress_ms = request->no_progress ? 0 : PROGRESS_MS};
    sonde_err err = rpc_selector(request->target, &spec->target, diag);
    if (!err)
        err = rpc_number("duration_ms", request->duration_ms, DEFAULT_ALLOCS_MS, 1,
                         RPC_MAX_DURATION_MS, &spec->duration_ms, diag);
    if (!err)
        err = check_density(request->sample_bytes, request->probability, spec, diag);
    if (!err)
        err = rpc_rendering_allocs(request->rendering, request->sample_type, rendering, diag);
    spec->keep_allocator_frames =
        !err && ((request->rendering && request->rendering->keep_allocator_frames) ||
                 rendering->format == SONDE_FORMAT_LEGACY_HEAP);
    if (!err)
        err = check_length("poll_key", request->poll_key, ENGINE_ALLOCS_POLL_KEY, diag);
    if (!err && *request->poll_key && request->keep)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "poll_key and keep exclude each other");
    return err;
}

sonde_err rpc_allocs_session_spec(const Sonde__V1__StartAllocsRequest *request,
                                  struct engine_allocs_spec *spec, uint32_t *lease_ms,
                                  struct sonde_diag *diag) {
    *spec = (struct engine_allocs_spec){.keep_allocator_frames = request->keep_allocator_frames};
    *lease_ms = 0;
    sonde_err err = rpc_selector(request->target, &spec->target, diag);
    if (!err)
        err = check_density(request->sample_bytes, request->probability, spec, diag);
    if (!err && request->lease_ms)
        err = rpc_number("lease_ms", request->lease_ms, 0, 1, RPC_MAX_DURATION_MS, lease_ms, diag);
    if (!err)
        err = check_length("owner", request->owner, MAX_OWNER, diag);
    return err;
}

sonde_err rpc_symbolize_check(const Sonde__V1__SymbolizeRequest *request,
                              struct engine_selector *selector, struct sonde_diag *diag) {
    if (request->n_addresses > ENGINE_MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "addresses: %zu are too many; at most %d a call",
                          request->n_addresses, ENGINE_MAX_ADDRESSES);
    return rpc_selector(request->target, selector, diag);
}
