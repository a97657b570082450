/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches a dump: one that the guest takes now, or a periodic one. Either is a descriptor that a
 * worker reads and passes on unchanged or turns into a profile. */
#include "service/engine/heap/heap_state.h"
#include "service/engine/memory_report/dump_places.h"
#include "service/engine/memory_report/dump_profile.h"

#include "api/profile/heap/jemalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct delivery {
    struct job job;
    struct heap_call *call;
    int fd; /* -1 = the table of Sonde's sampler */
    struct table_reading reading;
};

/* When and from which process the dump was taken. */
static sonde_err note_origin(int fd, struct sonde_profile *profile) {
    struct sonde_profile_info info = *sonde_profile_info(profile);
    struct stat file;
    if (fstat(fd, &file) == 0)
        info.time_unix_ns = (int64_t)file.st_mtim.tv_sec * 1000000000ll + file.st_mtim.tv_nsec;
    sonde_profile_set_info(profile, &info);
    return sonde_profile_add_comment(profile,
                                     "backend: jemalloc (where it is older than 5.3, or has "
                                     "prof_unbias:false, it miscounts objects of mixed "
                                     "sizes)");
}

sonde_err heap_read_dump(struct engine *engine, int fd, const struct process_identity *process,
                         const struct mapping_lives *lives, bool is_saved, bool raw,
                         bool keep_frames, struct engine_heap_result *result,
                         struct sonde_diag *diag) {
    struct heap_text text;
    sonde_err err = heap_text_open(fd, &text, diag);
    if (!err && !sonde_jemalloc_is_dump(text.bytes))
        err = sonde_fail(diag, SONDE_CORRUPT, "the heap dump is not one of jemalloc's");
    if (!err && !is_saved)
        err = heap_dump_settle(&text, lives, diag);
    if (!err && raw)
        err = heap_text_take(&text, &result->text);
    else if (!err)
        err =
            heap_profile_build(engine, process, lives, &text, keep_frames, &result->profile, diag);
    if (!err && !raw)
        err = note_origin(fd, result->profile);
    if (err) {
        sonde_profile_destroy(result->profile);
        result->profile = NULL;
        sonde_buf_finish(&result->text);
    }
    heap_text_finish(&text);
    return err;
}

static sonde_err read_table(struct delivery *delivery, struct engine_heap_result *result,
                            struct sonde_diag *diag) {
    struct engine *engine = delivery->job.engine;
    if (!delivery->call->raw)
        return table_read_profile(engine, &delivery->reading, &result->profile, diag);
    sonde_err err = table_read_text(&delivery->reading, &result->text, diag);
    if (err)
        sonde_buf_finish(&result->text);
    return err;
}

static void perform(struct job *base) {
    struct delivery *delivery = container_of(base, struct delivery, job);
    struct engine_heap_result result = {.unix_ns = now_unix_ns(),
                                        .monotonic_ns = (int64_t)now_monotonic_ns(),
                                        .epoch = delivery->call->epoch};
    struct sonde_diag diag = {0};
    sonde_err err =
        delivery->fd < 0
            ? read_table(delivery, &result, &diag)
            : heap_read_dump(base->engine, delivery->fd, &delivery->call->target->process,
                             delivery->reading.lives, delivery->call->name[0] != 0,
                             delivery->call->raw, delivery->call->keep_frames, &result, &diag);
    delivery->call->on_result(delivery->call->context, err, err ? &diag : NULL,
                              err ? NULL : &result);
    if (delivery->fd >= 0)
        close(delivery->fd);
}

static void complete(struct engine *engine, struct job *base) {
    struct delivery *delivery = container_of(base, struct delivery, job);
    table_reading_finish(&delivery->reading);
    heap_call_free(delivery->call);
    free(delivery);
}

static void fail(struct heap_call *call, sonde_err err, const struct sonde_diag *diag) {
    call->on_result(call->context, err, diag, NULL);
    heap_call_free(call);
}

void heap_deliver(struct heap_call *call, int fd) {
    struct engine *engine = call->target->engine;
    struct delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery) {
        if (fd >= 0)
            close(fd);
        fail(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    *delivery = (struct delivery){
        .job = {.perform = perform, .complete = complete}, .call = call, .fd = fd};
    table_reading_init(&delivery->reading, call->target->heap);
    delivery->reading.older_than_ms = call->older_than_ms;
    delivery->reading.keep_frames = call->keep_frames;
    target_start_job(call->target, engine->builders, &delivery->job);
}

static void on_dumped(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct sonde_diag diag = {0};
    sonde_err err = heap_check_answer(call->target->heap, answer, &diag);
    if (!err &&
        ((call->require_active && !answer->active) || (!answer->profiling && !answer->interposed)))
        err = sonde_fail(&diag, SONDE_NOT_ACTIVE, NULL);
    if (!err && call->older_than_ms && !answer->interposed)
        err = sonde_fail(
            &diag, SONDE_NOT_AVAILABLE,
            "only Sonde's sampler knows the age of objects: turn heap profiling off, and "
            "on again with the backend interposed");
    bool is_table = answer && answer->interposed && call->target->heap->table;
    if (!err && fd < 0 && !is_table)
        err = sonde_fail(&diag, SONDE_PROTOCOL, "%s sent no dump", call->target->info.name);
    if (!err) {
        call->epoch = call->target->heap->state.epoch;
        heap_deliver(call, fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    fail(call, err, &diag);
}

static void get_saved(struct heap *heap, struct heap_call *call) {
    struct sonde_diag diag = {0};
    uint32_t number = 0;
    bool named = heap_dumps_parse_name(call->name, &number);
    const struct heap_dump *dump = named ? heap_dumps_find(&heap->dumps, number) : NULL;
    int fd = dump ? heap_dumps_open_file(&heap->dumps, number) : -1;
    call->epoch = dump ? dump->epoch : 0;
    if (fd >= 0)
        heap_deliver(call, fd);
    else if (dump && errno != ENOENT)
        fail(call, sonde_fail_os(&diag, errno, "heap profile %s cannot be read", call->name),
             &diag);
    else
        fail(call, sonde_fail(&diag, SONDE_NOT_FOUND, "heap profile %s not found", call->name),
             &diag);
}

/* The table of Sonde's sampler can be read without the target's help, even if it is stopped. */
static bool is_at_hand(const struct heap *heap) {
    const struct engine_heap_state *state = &heap->state;
    return heap->table && state->active && state->backend == ENGINE_HEAP_INTERPOSED &&
           heap->target->is_attached;
}

static void deliver_table(const struct heap *heap, struct heap_call *call) {
    call->epoch = heap->state.epoch;
    heap_deliver(call, -1);
}

static void on_begin(struct engine *engine, struct message *message) {
    struct heap_call *call = container_of(message, struct heap_call, message);
    struct heap *heap = heap_of(call->target);
    if (!heap)
        fail(call, SONDE_OUT_OF_MEMORY, NULL);
    else if (call->name[0])
        get_saved(heap, call);
    else if (is_at_hand(heap))
        deliver_table(heap, call);
    else
        heap_send(heap, call);
}

sonde_err engine_heap_get(struct engine *engine, const struct engine_heap_query *query,
                          engine_on_heap_result *on_result, void *context,
                          struct sonde_diag *diag) {
    struct heap_call *call = NULL;
    uint32_t number;
    if (query->name && !heap_dumps_parse_name(query->name, &number))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "name: this is not six digits and \".heap\", as in the list of dumps");
    if (query->ended)
        return heap_get_ended(engine, query, on_result, context, diag);
    sonde_err err = heap_call_create(engine, &query->target, &call, diag);
    if (err)
        return err;
    call->verb = sonde_guest_v1_HeapVerb_HEAP_DUMP;
    call->done = on_dumped;
    call->on_result = on_result;
    call->context = context;
    call->raw = query->raw;
    call->keep_frames = query->keep_allocator_frames;
    call->require_active = query->require_active;
    call->older_than_ms = query->older_than_ms;
    if (query->name)
        memcpy(call->name, query->name, strlen(query->name));
    call->message.run = on_begin;
    engine_post(engine, &call->message);
    return SONDE_OK;
}
