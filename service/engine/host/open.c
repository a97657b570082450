/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a stream's rings on a builder: a process with thousands of threads needs thousands of
 * events. */
#include "service/engine/host/stream.h"

#include "service/host/processes/process_list.h"

#include <stdlib.h>
#include <string.h>

struct open_job {
    struct job job;
    struct host_stream *stream;
    bool is_resize;
    uint32_t former_bytes; /* resize: the size of the copies until now */
    struct rings_options options;
    /* Of a stream of one target: which processes it is. */
    struct host_target members;
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
    pid_t *pids = NULL;
    job->err = SONDE_UNAVAILABLE;
    if (atomic_load(&base->engine->is_ending))
        return;
    if (!job->stream->is_all) {
        size_t count = 1;
        job->options.pids = &job->members.pid;
        if (job->members.members != HOST_ONE)
            job->options.pids = pids = host_list_pids(&job->members, &count);
        job->options.pid_count = count;
    }
    job->err = job->stream->is_all || job->options.pid_count > 0
                   ? host->ops->open(&job->options, &job->rings, &job->diag)
                   : sonde_fail(&job->diag, SONDE_NOT_AVAILABLE, "no such process is running");
    if (job->err && job->is_resize && !job->stream->is_all) { /* the old ones are closed already */
        job->options.stack_bytes = job->former_bytes;
        job->err = host->ops->open(&job->options, &job->rings, &job->diag);
    }
    free(pids);
}

static void complete(struct engine *engine, struct job *base) {
    struct open_job *job = container_of(base, struct open_job, job);
    struct host_stream *stream = job->stream;
    stream->jobs--;
    struct rings *rings = job->err ? NULL : job->rings;
    if (job->is_resize)
        stream_resized(stream, rings, job->options.stack_bytes);
    else
        stream_opened(stream, job->err, rings, &job->diag);
    free(job);
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
        job->members.pid = target->link.process.pid;
    job->options = (struct rings_options){
        .period_ns = stream->period_ns ? stream->period_ns : target->period_ns,
        .stack_bytes = stack_bytes,
        .has_kernel = stream->is_all,
        .create = sampler_create_event,
        .create_context = stream->engine->sampler,
    };
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
