/* SPDX-License-Identifier: Apache-2.0
 *
 * When each host recorded, from the intervals of its totals. Finished hours are answered from their
 * tallies. */
#include "api/base/array.h"
#include "service/store/sqlite/engine.h"

#include "service/store/sqlite/read/scan.h"

#include <stdlib.h>
#include <string.h>

struct hosts {
    struct tally tally; /* of the current host */
    struct store_host *hosts;
    size_t count, capacity;
    struct sonde_arena *arena;
};

static void on_window(void *context, struct scan *scan, const struct chunk_window *window,
                      struct labelset *set) {
    tally_add(&((struct hosts *)context)->tally, scan->stream, window);
}

static void on_hour(void *context, struct scan *scan, const struct tally *tally,
                    const struct chunk *rows) {
    tally_append(&((struct hosts *)context)->tally, scan->stream, tally);
}

static size_t copy_spans(const struct tally *tally, struct store_span *spans) {
    size_t count = 0;
    for (size_t i = 0; i < tally->span_count; i++) {
        const struct tally_span *from = &tally->spans[i];
        if (count && from->begin < spans[count - 1].end_unix_s + STORE_HOST_PAUSE_S)
            spans[count - 1].end_unix_s = from->end;
        else
            spans[count++] = (struct store_span){from->begin, from->end};
    }
    return count;
}

static void on_stream_end(void *context, struct scan *scan) {
    struct hosts *hosts = context;
    struct tally *tally = &hosts->tally;
    if (tally->span_count == 0)
        return;
    tally_join_spans(tally);
    struct store_span *spans = sonde_arena_alloc(hosts->arena, tally->span_count * sizeof *spans);
    char *name = sonde_arena_dup(hosts->arena, scan->service_name, strlen(scan->service_name));
    if (!spans || !name || tally->failed ||
        !array_room(&hosts->hosts, &hosts->capacity, hosts->count, 1)) {
        db_out_of_memory(scan->db);
        return;
    }
    hosts->hosts[hosts->count++] = (struct store_host){name, spans, copy_spans(tally, spans)};
    tally_clear(tally);
}

sonde_err engine_hosts(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_host **result, size_t *count,
                       struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    const struct store_query times = {.from_unix_s = query->from_unix_s,
                                      .until_unix_s = query->until_unix_s,
                                      .stop = query->stop};
    struct hosts hosts = {.arena = arena};
    struct scan scan;
    scan_init(&scan, db, &times);
    scan_run(&scan, &(struct scan_visitor){.context = &hosts,
                                           .kind = SERVICE_HOST,
                                           .any_event = true,
                                           .on_window = on_window,
                                           .on_hour = on_hour,
                                           .on_stream_end = on_stream_end});
    *count = hosts.count;
    *result = sonde_arena_alloc(arena, (hosts.count + 1) * sizeof **result);
    if (!*result)
        db_out_of_memory(db);
    else if (hosts.count)
        memcpy(*result, hosts.hosts, hosts.count * sizeof **result);
    scan_finish(&scan);
    tally_finish(&hosts.tally);
    free(hosts.hosts);
    return engine_read_end(engine, db, diag);
}
