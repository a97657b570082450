/* SPDX-License-Identifier: Apache-2.0
 *
 * ListSymbolFiles and EvictSymbols. Both read the disk, so both run on a worker. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/symbols/symbol_file.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LISTED 16384u
#define MAX_ID     95

struct work {
    struct rpc_job job;
    const Sonde__V1__EvictSymbolsRequest *evict; /* in the call's arena */
    grpc_slice packed;
    sonde_err err;
    struct sonde_diag diag;
};

void rpc_symbol_file(const struct symbol_file *file, Sonde__V1__SymbolFile *message) {
    sonde__v1__symbol_file__init(message);
    message->kind = (Sonde__V1__SymbolFile__Kind)file->kind;
    message->state = (Sonde__V1__SymbolFile__State)file->state;
    message->reason = (char *)file->reason;
    message->detail = (char *)file->detail;
    message->identity = (char *)file->identity;
    message->build_id = (char *)file->build_id;
    message->name = (char *)file->name;
    message->bytes = file->bytes;
    message->used_unix_ns = file->used_unix_ns;
    message->quality = (Sonde__V1__AddressSymbols__Quality)file->quality;
    message->mapped = file->is_loaded;
}

static sonde_err pack_list(struct work *work, const struct symbol_file *files, size_t count,
                           struct sonde_arena *arena) {
    Sonde__V1__ListSymbolFilesResponse response = SONDE__V1__LIST_SYMBOL_FILES_RESPONSE__INIT;
    response.cut = count > MAX_LISTED;
    count = count < MAX_LISTED ? count : MAX_LISTED;
    Sonde__V1__SymbolFile *items = sonde_arena_alloc(arena, count * sizeof *items + 1);
    response.files = sonde_arena_alloc(arena, count * sizeof *response.files + 1);
    if (!items || !response.files)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        rpc_symbol_file(&files[i], &items[i]);
        items[i].name = (char *)rpc_text(arena, files[i].name);
        items[i].identity = (char *)rpc_text(arena, files[i].identity);
        response.files[i] = &items[i];
    }
    response.n_files = count;
    work->packed = rpc_pack(&response.base);
    return SONDE_OK;
}

static void list(struct rpc_job *job) {
    struct work *work = container_of(job, struct work, job);
    struct sonde_arena arena = {0};
    struct symbol_file *files = NULL;
    size_t count = 0;
    work->err =
        engine_symbol_files(rpc_call_server(job->call)->engine, &files, &count, &work->diag);
    if (!work->err)
        work->err = pack_list(work, files, count, &arena);
    free(files);
    sonde_arena_finish(&arena);
}

static void evict(struct rpc_job *job) {
    struct work *work = container_of(job, struct work, job);
    Sonde__V1__EvictSymbolsResponse response = SONDE__V1__EVICT_SYMBOLS_RESPONSE__INIT;
    struct symbol_evicted evicted = {0};
    work->err = engine_symbol_evict(rpc_call_server(job->call)->engine,
                                    work->evict->all ? NULL : work->evict->id, work->evict->uploads,
                                    &evicted, &work->diag);
    response.files = evicted.files;
    response.bytes = evicted.bytes;
    if (!work->err)
        work->packed = rpc_pack(&response.base);
}

static void on_done(struct rpc_job *job) {
    struct work *work = container_of(job, struct work, job);
    struct rpc_call *call = job->call;
    if (work->err)
        rpc_finish(call, work->err, &work->diag);
    else
        rpc_reply_slice(call, work->packed);
    free(work);
    rpc_call_drop(call);
}

static void start(struct rpc_call *call, void (*run)(struct rpc_job *job),
                  const Sonde__V1__EvictSymbolsRequest *request) {
    struct work *work = calloc(1, sizeof *work);
    if (!work) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    work->evict = request;
    work->job = (struct rpc_job){.call = call, .run = run, .on_done = on_done};
    rpc_call_take(call);
    rpc_job_start(&work->job);
}

void rpc_list_symbol_files(struct rpc_call *call, const ProtobufCMessage *message) {
    (void)message;
    start(call, list, NULL);
}

void rpc_evict_symbols(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__EvictSymbolsRequest *request = (const void *)message;
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    if ((request->id[0] != 0) == (request->all != 0))
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "say one: id, an identity or build-id of the list, or all");
    else if (strlen(request->id) > MAX_ID)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "id: %zu bytes are too long; at most %d",
                         strlen(request->id), MAX_ID);
    if (err)
        rpc_finish(call, err, &diag);
    else
        start(call, evict, request);
}
