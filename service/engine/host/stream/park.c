/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS_PER_CLOCK 32 /* at parked samples, which are cheaper than a look at the clock */

void park_init(struct park *park) {
    *park = (struct park){.last = &park->first};
}

bool park_add(struct park *park, struct host_process *process, struct code_map *map,
              struct mapping *waits_for, const struct host_record *record) {
    const struct host_sample *from = &record->sample;
    size_t kernel_bytes = from->kernel_count * sizeof *from->kernel;
    size_t bytes = sizeof(struct parked) + kernel_bytes + from->stack_bytes;
    struct parked *parked = park->bytes + bytes <= HOST_MAX_PARKED ? malloc(bytes) : NULL;
    if (!parked)
        return false;
    uint8_t *data = (uint8_t *)(parked + 1);
    if (kernel_bytes)
        memcpy(data, from->kernel, kernel_bytes);
    if (from->stack_bytes)
        memcpy(data + kernel_bytes, from->stack, from->stack_bytes);
    *parked = (struct parked){.process = process_retain(process),
                              .map = code_map_retain(map),
                              .waits_for = waits_for ? mapping_retain(waits_for) : NULL,
                              .bytes = bytes,
                              .record = *record};
    parked->record.sample.kernel = (const uint64_t *)data;
    parked->record.sample.stack = data + kernel_bytes;
    park->bytes += bytes;
    *park->last = parked;
    park->last = &parked->next;
    return true;
}

static void take_off(struct park *park, struct parked **at) {
    struct parked *parked = *at;
    *at = parked->next;
    if (!*at)
        park->last = at;
    park->bytes -= parked->bytes;
    mapping_release(parked->waits_for);
    code_map_release(parked->map);
    process_release(parked->process);
    free(parked);
}

static bool is_ready(const struct parked *parked) {
    if (parked->waits_for)
        return parked->waits_for->is_opened;
    return parked->process->map_state != HOST_MAP_READING;
}

void park_retry(struct host_stream *stream, bool (*is_over)(void *context)) {
    struct park *park = &stream->park;
    if (!park->has_news)
        return;
    park->has_news = false;
    uint32_t looked = 0;
    for (struct parked **at = &park->first; *at;) {
        if (++looked % LOOKS_PER_CLOCK == 0 && is_over(stream)) {
            park->has_news = true;
            return;
        }
        if (is_ready(*at) && sample_retry(stream, *at, true))
            take_off(park, at);
        else
            at = &(*at)->next;
    }
}

void park_empty(struct host_stream *stream) {
    struct park *park = &stream->park;
    while (park->first) {
        (void)sample_retry(stream, park->first, false);
        take_off(park, &park->first);
    }
}

bool park_has_before(const struct park *park, uint64_t time_ns) {
    for (const struct parked *parked = park->first; parked; parked = parked->next) {
        if (parked->record.time_ns <= time_ns)
            return true;
    }
    return false;
}
