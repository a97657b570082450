/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers of heap profiling: periodic dumps and the end of a lease. The next sonded continues both
 * (saved_state.h). A dump that fails is counted, and the next one is tried at its time. */
#include "service/engine/heap/dump_retention.h"
#include "service/engine/heap/heap_state.h"
#include "service/engine/heap/saved_state.h"
#include "service/engine/memory_report/dump_places.h"

#include "api/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

/* ---- Saved state ---- */

char *heap_directory(const struct target *target) {
    const char *data_dir = target->engine->data_dir;
    char *path = NULL;
    if (!data_dir || !data_dir[0])
        return NULL;
    if (asprintf(&path, "%s/heap/%d-%s", data_dir, (int)target->info.pid, target->info.uuid) < 0)
        return NULL;
    return path;
}

static void write_state(const struct heap *heap, FILE *file) {
    const struct engine_heap_state *state = &heap->state;
    struct heap_saved_state memory = {
        .pid = heap->target->info.pid,
        .ticks = heap_sweep_ticks(heap->target->info.pid),
        .uid = heap->target->uid,
        .active = state->active,
        .since_unix_ns = state->active_since_unix_ns,
        .lease_until_unix_ns = state->lease_until_unix_ns,
        .interval_s = state->interval_s,
        .keep_dumps = heap->state.keep_dumps,
        .keep_bytes = heap->keep_bytes,
        .epoch = state->epoch,
    };
    memcpy(memory.owner, state->owner, sizeof memory.owner);
    snprintf(memory.name, sizeof memory.name, "%s", heap->target->info.name);
    sonde_utf8_replace(memory.name, '?'); /* a newline would end the line in the state file */
    heap_saved_state_write(&memory, &heap->dumps, file);
}

/* Failures are ignored: the next sonded merely knows less. */
void heap_save_state(const struct heap *heap) {
    char path[4096], fresh[4096];
    if (!heap->dumps.dir)
        return;
    snprintf(path, sizeof path, "%s/state", heap->dumps.dir);
    snprintf(fresh, sizeof fresh, "%s/state.new", heap->dumps.dir);
    if (!heap->state.active && heap->dumps.count == 0) {
        unlink(path);
        rmdir(heap->dumps.dir);
        return;
    }
    FILE *file = heap_dumps_prepare(&heap->dumps, NULL) == SONDE_OK ? fopen(fresh, "we") : NULL;
    if (!file)
        return;
    write_state(heap, file);
    bool whole = !ferror(file);
    if (fclose(file) != 0 || !whole || rename(fresh, path) != 0)
        unlink(fresh);
}

/* Whether heap profiling was on when the last sonded ended. */
static bool recall(struct heap *heap) {
    struct engine_heap_state *state = &heap->state;
    struct heap_saved_state memory = {.keep_dumps = heap->state.keep_dumps,
                                      .keep_bytes = heap->keep_bytes,
                                      .epoch = state->epoch};
    char path[4096];
    snprintf(path, sizeof path, "%s/state", heap->dumps.dir ? heap->dumps.dir : "");
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    heap_saved_state_read(&memory, &heap->dumps, file);
    fclose(file);
    state->active_since_unix_ns = memory.since_unix_ns;
    state->lease_until_unix_ns = memory.lease_until_unix_ns;
    state->interval_s = memory.interval_s;
    state->epoch = memory.epoch;
    heap->state.keep_dumps = memory.keep_dumps;
    heap->keep_bytes = memory.keep_bytes;
    memcpy(state->owner, memory.owner, sizeof state->owner);
    return memory.active;
}

/* ---- A restart of sonded ---- */

static void plan(struct heap *heap) {
    uint64_t now_ns = now_monotonic_ns();
    int64_t left_ns = heap->state.lease_until_unix_ns - now_unix_ns();
    heap->next_dump_ns = heap->state.interval_s ? now_ns + heap->state.interval_s * NS_PER_S : 0;
    heap->lease_ns = 0;
    if (heap->state.lease_until_unix_ns)
        heap->lease_ns = left_ns > 0 ? now_ns + (uint64_t)left_ns : now_ns;
    target_wake_now(heap->target);
}

static void on_status(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct heap *heap = call->target->heap;
    struct engine_heap_state said = heap->state;
    if (fd >= 0)
        close(fd);
    bool goes_on = recall(heap) && answer && said.active;
    said.epoch = heap->state.epoch;
    if (goes_on)
        plan(heap);
    else
        heap->state = said;
    heap_call_free(call);
}

void heap_attach(struct target *target) {
    char *dir = heap_directory(target);
    bool is_known = dir && access(dir, R_OK | X_OK) == 0;
    free(dir);
    struct heap *heap = is_known ? heap_of(target) : NULL;
    struct heap_call *call = heap ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return;
    call->target = target_retain(target);
    call->verb = sonde_guest_v1_HeapVerb_HEAP_STATUS;
    call->done = on_status;
    heap_send(heap, call);
}

/* ---- Dumps of ended processes ---- */

static void sweep(struct job *base) {
    static const struct heap_sweep_limits limits = {HEAP_SWEEP_AGE_NS, HEAP_SWEEP_COUNT,
                                                    HEAP_SWEEP_BYTES};
    char path[4096];
    snprintf(path, sizeof path, "%s/heap", base->engine->data_dir);
    heap_sweep(path, &limits);
}

static void on_swept(struct engine *engine, struct job *job) {
    engine->is_sweeping = false;
    free(job);
}

void heap_start_sweep(struct engine *engine) {
    bool has_place = engine->data_dir && engine->data_dir[0];
    struct job *job = has_place && !engine->is_sweeping ? calloc(1, sizeof *job) : NULL;
    if (!job)
        return;
    *job = (struct job){.perform = sweep, .complete = on_swept};
    engine->is_sweeping = true;
    engine_start_job(engine, engine->builders, job);
}

/* ---- Activation ---- */

void heap_begin_activity(struct heap *heap, const struct heap_call *call) {
    struct engine_heap_state *state = &heap->state;
    const struct engine_heap_request *request = &call->request;
    memcpy(state->owner, call->owner, sizeof state->owner);
    state->active_since_unix_ns = now_unix_ns();
    state->lease_until_unix_ns =
        request->lease_ms ? state->active_since_unix_ns + request->lease_ms * 1000000ll : 0;
    state->interval_s = request->interval_s;
    state->dump_failures = 0;
    state->gdump_skipped = 0;
    state->last_failure[0] = 0;
    state->keep_dumps =
        request->keep_dumps ? request->keep_dumps : heap->target->engine->heap_dumps;
    heap->keep_bytes = request->keep_bytes ? request->keep_bytes : HEAP_KEEP_BYTES;
    plan(heap);
    heap_save_state(heap);
}

void heap_end_activity(struct heap *heap, bool delete_dumps) {
    struct engine_heap_state *state = &heap->state;
    bool was_ours = state->active_since_unix_ns != 0;
    state->owner[0] = 0;
    if (!was_ours && !delete_dumps)
        return;
    state->active_since_unix_ns = state->lease_until_unix_ns = 0;
    state->interval_s = 0;
    heap->next_dump_ns = heap->lease_ns = 0;
    if (delete_dumps) {
        heap_dumps_delete(&heap->dumps);
        heap->incarnation++;
    }
    heap_save_state(heap);
}

/* ---- Periodic dumps ---- */

struct dump_saving {
    struct job job;
    struct target *target;
    int fd; /* -1 = the table of Sonde's sampler */
    struct table_reading reading;
    char *path;
    uint32_t incarnation;
    uint64_t limit, bytes, epoch;
    sonde_err err;
    struct sonde_diag diag;
};

static void count_failure(struct heap *heap, sonde_err err, const struct sonde_diag *diag) {
    heap->state.dump_failures++;
    snprintf(heap->state.last_failure, sizeof heap->state.last_failure, "%s",
             sonde_diag_text(diag, err));
}

/* -1 and saving->err on failure. */
static int write_text(struct dump_saving *saving, struct sonde_slice text) {
    int fd = memfd_create("heap", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < text.len;) {
        ssize_t put = write(fd, text.data + at, text.len - at);
        if (put <= 0) {
            saving->err = sonde_fail_os(&saving->diag, errno, "the heap dump cannot be written");
            close(fd);
            fd = -1;
        }
        at += put > 0 ? (size_t)put : 0;
    }
    if (fd < 0 && !saving->err)
        saving->err = SONDE_IO;
    return fd;
}

/* Writes a dump of Sonde's sampler to a file in jemalloc's format; -1 and saving->err on
 * failure. */
static int write_dump(struct dump_saving *saving) {
    struct sonde_buf text = {0};
    saving->err = table_read_text(&saving->reading, &text, &saving->diag);
    int fd = saving->err ? -1 : write_text(saving, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
    return fd;
}

/* Replaces jemalloc's dump by one that can be read when the process is gone. */
static void settle_dump(struct dump_saving *saving) {
    struct heap_text text;
    saving->err = heap_text_open(saving->fd, &text, &saving->diag);
    if (!saving->err)
        saving->err = heap_dump_settle(&text, saving->reading.lives, &saving->diag);
    bool is_changed = !saving->err && !text.mapped;
    if (saving->err || is_changed) {
        close(saving->fd);
        saving->fd = saving->err ? -1 : write_text(saving, text.bytes);
    }
    heap_text_finish(&text);
}

static void save(struct job *base) {
    struct dump_saving *saving = container_of(base, struct dump_saving, job);
    if (saving->fd < 0)
        saving->fd = write_dump(saving);
    else
        settle_dump(saving);
    if (saving->fd < 0)
        return;
    saving->err =
        heap_dumps_write(saving->path, saving->fd, saving->limit, &saving->bytes, &saving->diag);
    close(saving->fd);
}

static void on_saved(struct engine *engine, struct job *base) {
    struct dump_saving *saving = container_of(base, struct dump_saving, job);
    struct heap *heap = saving->target->heap;
    sonde_err err = saving->err;
    bool is_wanted = saving->incarnation == heap->incarnation;
    heap->is_dumping = false;
    if (!err && !is_wanted)
        unlink(saving->path);
    else if (!err)
        err =
            heap_dumps_add(&heap->dumps, saving->path, saving->bytes, saving->epoch, &saving->diag);
    if (err && is_wanted)
        count_failure(heap, err, &saving->diag);
    if (!err && is_wanted)
        heap_dumps_prune(&heap->dumps, heap->state.keep_dumps, heap->keep_bytes);
    heap_save_state(heap);
    table_reading_finish(&saving->reading);
    target_release(saving->target);
    free(saving->path);
    free(saving);
}

/* Takes fd; -1 = dump the table of Sonde's sampler. */
static sonde_err start_saving(struct heap *heap, int fd, struct sonde_diag *diag) {
    sonde_err err = heap_dumps_prepare(&heap->dumps, diag);
    struct dump_saving *saving = err ? NULL : calloc(1, sizeof *saving);
    char *path = saving ? heap_dumps_unfinished(&heap->dumps) : NULL;
    if (!path) {
        if (fd >= 0)
            close(fd);
        free(saving);
        return err ? err : SONDE_OUT_OF_MEMORY;
    }
    *saving = (struct dump_saving){.job = {.perform = save, .complete = on_saved},
                                   .target = target_retain(heap->target),
                                   .fd = fd,
                                   .path = path,
                                   .incarnation = heap->incarnation,
                                   .limit = heap->keep_bytes,
                                   .epoch = heap->state.epoch};
    table_reading_init(&saving->reading, heap);
    target_start_job(heap->target, heap->target->engine->builders, &saving->job);
    return SONDE_OK;
}

/* A guest may send dumps at any time, and any number of them. */
void heap_on_gdump(struct target *target, uint64_t skipped, int fd) {
    struct heap *heap = target->heap;
    struct sonde_diag diag = {0};
    uint64_t now_ns = now_monotonic_ns();
    bool is_welcome = heap && heap->state.gdump && now_ns - heap->gdump_ns >= HEAP_GDUMP_NS;
    if (heap)
        heap->state.gdump_skipped += skipped + !is_welcome;
    if (!is_welcome) {
        close(fd);
        return;
    }
    heap->gdump_ns = now_ns;
    sonde_err err = start_saving(heap, fd, &diag);
    if (err)
        count_failure(heap, err, &diag);
}

static void on_dumped(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    struct heap *heap = call->target->heap;
    struct sonde_diag diag = {0};
    sonde_err err = heap_check_answer(heap, answer, &diag);
    if (!err && fd < 0 && !(answer->interposed && heap->table))
        err = SONDE_PROTOCOL;
    if (!err && answer->active)
        err = start_saving(heap, fd, &diag);
    else if (fd >= 0)
        close(fd);
    if (err || !answer->active)
        heap->is_dumping = false;
    if (err)
        count_failure(heap, err, &diag);
    heap_call_free(call);
}

static struct heap_call *own_call(struct heap *heap, sonde_guest_v1_HeapVerb verb) {
    struct heap_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->target = target_retain(heap->target);
    call->verb = verb;
    return call;
}

static void start_dump(struct heap *heap, uint64_t now_ns) {
    uint64_t interval_ns = heap->state.interval_s * NS_PER_S;
    struct heap_call *call = NULL;
    heap->next_dump_ns += interval_ns;
    if (heap->next_dump_ns <= now_ns)
        heap->next_dump_ns = now_ns + interval_ns;
    if (!heap->is_dumping) /* the previous one is still being taken */
        call = own_call(heap, sonde_guest_v1_HeapVerb_HEAP_DUMP);
    if (!call)
        return;
    heap->is_dumping = true;
    call->done = on_dumped;
    heap_send(heap, call);
}

static void on_lease_over(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd) {
    if (fd >= 0)
        close(fd);
    if (answer && !answer->active)
        heap_end_activity(call->target->heap, false);
    heap_call_free(call);
}

static void end_lease(struct heap *heap) {
    struct heap_call *call = own_call(heap, sonde_guest_v1_HeapVerb_HEAP_DEACTIVATE);
    heap->lease_ns = heap->next_dump_ns = 0;
    if (!call)
        return;
    call->done = on_lease_over;
    heap_send(heap, call);
}

uint64_t heap_periodic_tick(struct heap *heap, uint64_t now_ns) {
    if (heap->lease_ns != 0 && now_ns >= heap->lease_ns)
        end_lease(heap);
    if (heap->next_dump_ns != 0 && now_ns >= heap->next_dump_ns)
        start_dump(heap, now_ns);
    return earlier(heap->lease_ns, heap->next_dump_ns);
}
