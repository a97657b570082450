/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/heap/ended_dumps.h"

#include "service/rpc/base/text.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct listing {
    struct loop_message message;
    struct rpc_call *call;
    sonde_err err;
    struct sonde_diag diag;
    struct engine_ended_dump *items;
    size_t count;
};

static int32_t utc_offset_s(int64_t unix_ns) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm local;
    return localtime_r(&seconds, &local) ? (int32_t)local.tm_gmtoff : 0;
}

void rpc_heap_fill_dump(struct engine_heap_dump *from, Sonde__V1__HeapDump *dump) {
    sonde__v1__heap_dump__init(dump);
    dump->name = from->name;
    dump->unix_ns = from->unix_ns;
    dump->size_bytes = from->bytes;
    dump->epoch = from->epoch;
    dump->utc_offset_s = utc_offset_s(from->unix_ns);
}

static void reply(struct listing *listing) {
    Sonde__V1__ListHeapDumpsResponse response = SONDE__V1__LIST_HEAP_DUMPS_RESPONSE__INIT;
    struct sonde_arena *arena = rpc_call_arena(listing->call);
    size_t room = listing->count + 1;
    Sonde__V1__HeapDump *dumps = sonde_arena_alloc(arena, room * sizeof *dumps);
    response.dumps = sonde_arena_alloc(arena, room * sizeof *response.dumps);
    if (!dumps || !response.dumps) {
        rpc_finish(listing->call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    for (size_t i = 0; i < listing->count; i++) {
        struct engine_ended_dump *left = &listing->items[i];
        rpc_heap_fill_dump(&left->dump, &dumps[i]);
        dumps[i].target = (char *)rpc_text(arena, left->process);
        dumps[i].pid = left->pid;
        dumps[i].uuid = left->uuid;
        response.dumps[i] = &dumps[i];
    }
    response.n_dumps = listing->count;
    rpc_reply(listing->call, &response.base);
}

static void has_list(struct loop_message *message) {
    struct listing *listing = container_of(message, struct listing, message);
    if (listing->err)
        rpc_finish(listing->call, listing->err, &listing->diag);
    else
        reply(listing);
    rpc_call_drop(listing->call);
    free(listing->items);
    free(listing);
}

static void on_list(void *context, sonde_err err, const struct sonde_diag *diag,
                    const struct engine_ended_dump *items, size_t count) {
    struct listing *listing = context;
    listing->err = err;
    if (diag)
        listing->diag = *diag;
    if (!err && count > 0) {
        listing->items = calloc(count, sizeof *items);
        listing->err = listing->items ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    if (listing->items) {
        memcpy(listing->items, items, count * sizeof *items);
        listing->count = count;
    }
    loop_post(rpc_call_server(listing->call)->loop, &listing->message);
}

void rpc_list_ended_dumps(struct rpc_call *call, const Sonde__V1__TargetSelector *target) {
    struct engine_selector selector;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(target, &selector, &diag);
    struct listing *listing = err ? NULL : calloc(1, sizeof *listing);
    if (!err && !listing)
        err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        *listing = (struct listing){.message = {.run = has_list}, .call = call};
        rpc_call_take(call);
        err = engine_heap_list_ended(rpc_call_server(call)->engine, &selector, on_list, listing,
                                     &diag);
        if (err)
            rpc_call_drop(call);
    }
    if (!err)
        return;
    free(listing);
    rpc_finish(call, err, &diag);
}
