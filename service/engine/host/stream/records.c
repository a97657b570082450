/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel's records change in a stream. */
#include "service/engine/host/stream/stream.h"
#include "service/engine/host/stream/waits.h"
#include "service/host/processes/process_text.h"

#include <stdio.h>
#include <string.h>

static bool is_group(const struct host_stream *stream) {
    for (const struct target *target = stream->targets; target; target = target->host->next) {
        if (target->host->members != HOST_ONE)
            return true;
    }
    return false;
}

static void on_sample(struct host_stream *stream, const struct host_record *record) {
    if (!stream->is_all && stream->targets && record->pid == stream->targets->host->pid &&
        record->kind == HOST_SAMPLE)
        stream->unseen.sampled_ns += record->sample.weight_ns;
    struct host_process *process = process_find(&stream->processes, record->pid);
    stream->samples += record->kind == HOST_SAMPLE;
    if (!process)
        process = process_add(stream, record->pid, 0);
    if (process)
        sample_add(stream, process, record);
    else
        stream_count_drop(stream, DROP_PROCESSES, 1);
}

static void on_mmap(struct host_stream *stream, const struct host_record *record) {
    struct host_process *process = process_find(&stream->processes, record->pid);
    if (process)
        maps_add(process, record->time_ns, &record->mmap);
}

/* The program of a HOST_ONE target is no longer there. */
static void end_targets(struct host_process *process, bool by_exec) {
    for (struct target *target = process->stream->targets; target; target = target->host->next) {
        if (target->host->members != HOST_ONE || !host_has_member(target, process))
            continue;
        target->host->has_execed |= by_exec && !target->host->is_over;
        target->host->is_over = true;
        target_wake_now(target);
    }
}

static void learn_name(struct host_stream *stream, pid_t tid, const char *name) {
    struct ring_thread thread = {.record = {.tid = (uint32_t)tid}};
    memcpy(thread.name, name, strnlen(name, sizeof thread.name));
    thread_names_learn(&stream->names, &thread);
}

/* A process and its children are called after it: of `sonde record -- COMMAND`, the command. */
static void rename_trees(struct host_stream *stream, const struct host_process *process) {
    for (struct target *target = stream->targets; target; target = target->host->next) {
        if (target->host->members == HOST_TREE && target->host->pid == process->pid)
            snprintf(target->root_name, sizeof target->root_name, "%s", process->name);
    }
}

static void on_comm(struct host_stream *stream, const struct host_record *record) {
    struct host_process *process = process_find(&stream->processes, record->pid);
    if (process || is_group(stream))
        learn_name(stream, record->tid, record->comm.name);
    if (!record->comm.is_exec)
        return;
    if (process)
        end_targets(process, true);
    if (process || is_group(stream))
        process = process_exec(stream, record->pid);
    if (process) /* until it is read from /proc, if it does not end before */
        process_name_clean(process->name, sizeof process->name, record->comm.name);
    if (process)
        rename_trees(stream, process);
    if (process && is_group(stream))
        waits_on_exec(process);
}

static void on_fork(struct host_stream *stream, const struct host_record *record) {
    bool is_thread = record->pid == record->fork.parent_pid;
    struct host_process *parent = process_find(&stream->processes, record->fork.parent_pid);
    const char *name = thread_names_get(&stream->names, (uint32_t)record->fork.parent_tid);
    if (name)
        learn_name(stream, record->tid, name);
    else
        thread_names_forget(&stream->names, (uint32_t)record->tid);
    if (is_thread) {
        if (parent && parent->threads > 0 && parent->threads_ns < record->time_ns)
            parent->threads++;
        return;
    }
    if (!is_group(stream))
        return;
    if (!parent && stream->is_all) /* for the name of a child that ends at once */
        parent = process_add(stream, record->fork.parent_pid, 0);
    if (parent && !parent->name[0])
        (void)process_read_once(parent);
    if (parent) /* a full table may forget one that has ended */
        process_retain(parent);
    struct host_process *child = process_add(stream, record->pid, record->fork.parent_pid);
    if (child && parent)
        process_inherit(child, parent);
    process_release(parent);
    if (child)
        waits_on_fork(stream, record->fork.parent_pid, child);
}

/* Gone, or a zombie. */
static bool has_ended(pid_t pid) {
    char text[1024];
    struct process_stat stat;
    return process_file_read("/proc", pid, "stat", text, sizeof text) == 0 ||
           !process_stat_parse(text, &stat) || stat.has_ended;
}

static void on_thread_exit(struct host_stream *stream, const struct host_record *record) {
    struct host_process *process = process_find(&stream->processes, record->pid);
    thread_names_forget(&stream->names, (uint32_t)record->tid);
    stream->unseen.short_threads++;
    if (!process || process->has_ended)
        return;
    /* Its threads were counted later, perhaps those of a zombie. */
    if (process->threads_ns >= record->time_ns && !has_ended(process->pid))
        return;
    if (process->threads > 1 && process->threads_ns < record->time_ns) {
        process->threads--;
        return;
    }
    /* Its threads were never counted: it ends with its first one, for all that the stream knows. */
    if (process->threads == 0 && record->tid != record->pid)
        return;
    end_targets(process, false);
    process_end(process);
}

static void on_lost(struct host_stream *stream, const struct host_record *record) {
    stream->losses++;
    /* They may all be samples, which are reported as dropped and so are no time in the kernel. */
    stream->unseen.sampled_ns += record->lost * stream->period_ns;
    stream_count_drop(stream, RING_DROP_FULL, record->lost);
}

void stream_on_record(void *context, const struct host_record *record) {
    static void (*const handlers[HOST_RECORD_KINDS])(struct host_stream *,
                                                     const struct host_record *) = {
        [HOST_SAMPLE] = on_sample, [HOST_OFF_CPU] = on_sample, [HOST_MMAP] = on_mmap,
        [HOST_COMM] = on_comm,     [HOST_FORK] = on_fork,      [HOST_EXIT] = on_thread_exit,
        [HOST_LOST] = on_lost,
    };
    if (record->kind == HOST_LOST || record->pid > 0)
        handlers[record->kind](context, record);
}
