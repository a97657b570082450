/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a stream's rings on a builder: a process with thousands of threads needs thousands of
 * events. Without the right to sample all processes, the rings are those of the group's processes
 * and of what these start; /proc is read every other second for those that join otherwise. */
#include "service/engine/host/stream/stream.h"

#include "service/host/processes/process_list.h"
#include "service/host/sampler/sampler.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS    2000000000ull
#define MAX_JOINED 64u /* in one look: the engine thread adds them */

struct open_job {
    struct job job;
    struct host_stream *stream;
    bool is_resize;
    uint32_t former_bytes; /* resize: the size of the copies until now */
    struct rings_options options;
    /* Of a stream of one target: which processes it is. */
    struct host_target members;
    pid_t *pids; /* of a group; the stream's when the job is done */
    size_t pid_count;
    struct rings *rings;
    sonde_err err;
    struct sonde_diag diag;
};

/* The processes of a group, as far as /proc shows them now. */
static bool belongs(const struct host_target *members, const struct process_entry *entry,
                    const struct process_entry *entries, size_t count) {
    if (members->has_owner && (entry->uid != members->owner || entry->is_kernel))
        return false;
    if (members->members == HOST_NAMED)
        return strcmp(entry->name, members->name) == 0;
    pid_t pid = entry->pid, parent = entry->parent;
    for (int i = 0; members->members == HOST_TREE && i < 64 && pid != members->pid; i++) {
        size_t at = 0;
        while (at < count && entries[at].pid != parent)
            at++;
        if (at == count)
            return false;
        pid = parent;
        parent = entries[at].parent;
    }
    return members->members == HOST_EVERY || pid == members->pid;
}

pid_t *host_list_pids(const struct host_target *members, size_t *count) {
    size_t entry_count;
    struct process_entry *entries = process_list(&entry_count);
    pid_t *pids = calloc(entry_count + 1, sizeof *pids);
    *count = 0;
    for (size_t i = 0; entries && pids && i < entry_count; i++) {
        if (!entries[i].is_kernel && belongs(members, &entries[i], entries, entry_count))
            pids[(*count)++] = entries[i].pid;
    }
    free(entries);
    return pids;
}

static void perform(struct job *base) {
    struct open_job *job = container_of(base, struct open_job, job);
    const struct host *host = base->engine->host;
    job->err = SONDE_UNAVAILABLE;
    if (atomic_load(&base->engine->is_ending))
        return;
    if (!job->stream->is_all) {
        size_t count = 1;
        job->options.pids = &job->members.pid;
        if (job->members.members != HOST_ONE)
            job->options.pids = job->pids = host_list_pids(&job->members, &count);
        job->options.pid_count = job->pid_count = count;
    }
    job->err = job->stream->is_all || job->options.pid_count > 0
                   ? host->ops->open(&job->options, &job->rings, &job->diag)
                   : sonde_fail(&job->diag, SONDE_NOT_AVAILABLE, "no such process is running");
    if (job->err && job->is_resize &&
        job->options.pid_count > 0) { /* the old ones are closed already */
        job->options.stack_bytes = job->former_bytes;
        job->err = host->ops->open(&job->options, &job->rings, &job->diag);
    }
}

static void keep_pids(struct host_stream *stream, struct open_job *job) {
    if (!job->pids)
        return;
    free(stream->watched);
    stream->watched = job->pids;
    stream->watched_count = job->pid_count;
}

static void complete(struct engine *engine, struct job *base) {
    struct open_job *job = container_of(base, struct open_job, job);
    struct host_stream *stream = job->stream;
    stream->jobs--;
    struct rings *rings = job->err ? NULL : job->rings;
    keep_pids(stream, job);
    if (job->is_resize)
        stream_resized(stream, rings, job->options.stack_bytes);
    else
        stream_opened(stream, job->err, rings, &job->diag);
    free(job);
}

/* Counted events of single processes have the kernel's part where this sonded may see it. */
static bool samples_kernel(const struct host_stream *stream) {
    return counted_is_on(stream) && engine_has_right(stream->engine, RIGHT_PERF_ALL);
}

static bool start(struct host_stream *stream, bool is_resize, uint32_t stack_bytes) {
    struct open_job *job = calloc(1, sizeof *job);
    if (!job)
        return false;
    const struct target *target = stream->targets;
    job->job.perform = perform;
    job->job.complete = complete;
    job->stream = stream;
    job->is_resize = is_resize;
    job->former_bytes = stream->stack_bytes;
    job->members = *target->host;
    if (target->host->members == HOST_ONE)
        job->members.pid = target->process.pid;
    job->options = (struct rings_options){
        .period_ns = stream->period_ns ? stream->period_ns : target->period_ns,
        .stack_bytes = stack_bytes,
        .has_kernel = stream->is_all || samples_kernel(stream),
        .create = sampler_create_event,
        .create_context = stream->engine->sampler,
    };
    counted_options(stream, &job->options);
    stream->has_kernel = job->options.has_kernel;
    stream->jobs++;
    engine_start_job(stream->engine, stream->engine->builders, &job->job);
    return true;
}

bool rings_open_job(struct host_stream *stream) {
    return start(stream, false, stream->stack_bytes);
}

bool rings_resize_job(struct host_stream *stream, uint32_t stack_bytes) {
    return start(stream, true, stack_bytes);
}

/* --- processes that join a group ------------------------------------------------------------- */

static void perform_look(struct job *base) {
    struct open_job *job = container_of(base, struct open_job, job);
    if (!atomic_load(&base->engine->is_ending))
        job->pids = host_list_pids(&job->members, &job->pid_count);
}

static bool is_watched(const struct host_stream *stream, pid_t pid) {
    for (size_t i = 0; i < stream->watched_count; i++) {
        if (stream->watched[i] == pid)
            return true;
    }
    return process_find(&stream->processes, pid); /* a watched process has forked it */
}

/* One that cannot be added, because it has ended or there are too many, has no samples. */
static void add_joined(struct host_stream *stream, const struct open_job *job) {
    struct sonde_diag diag = {0};
    (void)stream_drain(stream, now_monotonic_ns(), stream->engine->turn_ns);
    uint32_t added = 0;
    for (size_t i = 0; i < job->pid_count && added < MAX_JOINED; i++) {
        if (is_watched(stream, job->pids[i]))
            continue;
        (void)stream->engine->host->ops->add_process(stream->rings, job->pids[i], &diag);
        added++;
    }
}

static void complete_look(struct engine *engine, struct job *base) {
    struct open_job *job = container_of(base, struct open_job, job);
    struct host_stream *stream = job->stream;
    stream->jobs--;
    stream->is_looking = false;
    if (stream->rings && !stream->is_over)
        add_joined(stream, job);
    keep_pids(stream, job);
    free(job);
    stream_free_if_over(stream);
}

void rings_look_job(struct host_stream *stream, uint64_t now_ns) {
    const struct host_target *members = stream->targets ? stream->targets->host : NULL;
    if (stream->is_all || stream->is_looking || !members || members->members == HOST_ONE ||
        members->members == HOST_TREE || now_ns < stream->looked_ns + LOOK_NS)
        return;
    struct open_job *job = calloc(1, sizeof *job);
    if (!job)
        return;
    job->job.perform = perform_look;
    job->job.complete = complete_look;
    job->stream = stream;
    job->members = *members;
    stream->is_looking = true;
    stream->looked_ns = now_ns;
    stream->jobs++;
    engine_start_job(stream->engine, stream->engine->builders, &job->job);
}
