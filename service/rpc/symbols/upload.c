/* SPDX-License-Identifier: Apache-2.0
 *
 * UploadDebugFile: a worker writes each message before the next is read, so a slow disk slows the
 * sender down. The announced size marks the last message, because a client that has vanished ends
 * its stream in the same way. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/symbols/symbol_file.h"
#include "service/symbol/files/files.h"

#include <stdlib.h>

struct receiving {
    struct rpc_job job;
    struct symbol_upload *upload;
    uint64_t size;
    ProtobufCBinaryData chunk; /* of the current message */
    bool is_kept;
    struct symbol_file file;
    sonde_err err;
    struct sonde_diag diag;
};

static void write_chunk(struct rpc_job *job) {
    struct receiving *receiving = container_of(job, struct receiving, job);
    struct engine *engine = rpc_call_server(job->call)->engine;
    if (!receiving->upload)
        receiving->err =
            engine_upload_begin(engine, receiving->size, &receiving->upload, &receiving->diag);
    if (!receiving->err)
        receiving->err = engine_upload_write(receiving->upload, receiving->chunk.data,
                                             receiving->chunk.len, &receiving->diag);
    if (receiving->err || engine_upload_missing(receiving->upload) > 0)
        return;
    receiving->err = engine_upload_finish(receiving->upload, &receiving->file, &receiving->diag);
    receiving->upload = NULL;
    receiving->is_kept = !receiving->err;
}

static void reply(struct rpc_call *call, const struct receiving *receiving) {
    Sonde__V1__SymbolFile message;
    rpc_symbol_file(&receiving->file, &message);
    rpc_call_note(call, " build_id=%s bytes=%llu", receiving->file.build_id,
                  (unsigned long long)receiving->size);
    rpc_reply(call, &message.base);
}

static void on_written(struct rpc_job *job) {
    struct receiving *receiving = container_of(job, struct receiving, job);
    struct rpc_call *call = job->call;
    if (receiving->err)
        rpc_finish(call, receiving->err, &receiving->diag);
    else if (receiving->is_kept)
        reply(call, receiving);
    else
        rpc_receive(call);
    rpc_call_drop(call);
}

static void on_closed(struct rpc_call *call) {
    struct receiving *receiving = rpc_call_state(call);
    struct sonde_diag diag = {0};
    uint64_t missing = receiving->upload ? engine_upload_missing(receiving->upload) : 0;
    sonde_err err = sonde_fail(
        &diag, SONDE_INVALID_ARGUMENT, "the upload ended after %llu of %llu bytes: send it again",
        (unsigned long long)(receiving->size - missing), (unsigned long long)receiving->size);
    rpc_finish(call, err, &diag);
}

static void release(struct rpc_call *call) {
    struct receiving *receiving = rpc_call_state(call);
    engine_upload_abandon(receiving->upload);
    free(receiving);
}

static struct receiving *create(struct rpc_call *call, uint64_t size) {
    static const struct rpc_call_events events = {.release = release};
    struct receiving *receiving = calloc(1, sizeof *receiving);
    if (!receiving)
        return NULL;
    receiving->size = size;
    receiving->job = (struct rpc_job){.call = call, .run = write_chunk, .on_done = on_written};
    rpc_call_set(call, &events, receiving);
    rpc_call_on_closed(call, on_closed);
    return receiving;
}

void rpc_upload_debug_file(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__UploadDebugFileRequest *request = (const void *)message;
    struct receiving *receiving = rpc_call_state(call);
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    if (receiving && request->size_bytes != 0 && request->size_bytes != receiving->size)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "size_bytes: the first message said %llu, a later one %llu",
                         (unsigned long long)receiving->size,
                         (unsigned long long)request->size_bytes);
    if (!receiving && !(receiving = create(call, request->size_bytes)))
        err = SONDE_OUT_OF_MEMORY;
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    receiving->chunk = request->chunk;
    rpc_call_take(call);
    rpc_job_start(&receiving->job);
}
