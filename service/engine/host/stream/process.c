/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/process.h"

#include "service/engine/host/stream/stream.h"
#include "service/host/processes/process_list.h"

#include <stdlib.h>
#include <string.h>

void process_table_init(struct process_table *table) {
    memset(table, 0, sizeof *table);
    hash_index_init(&table->seed);
}

static uint32_t bucket_of(const struct process_table *table, pid_t pid) {
    return hash_index_words(&table->seed, (uint64_t)pid, 0) % HOST_BUCKETS;
}

/* Takes it off the table. */
static void forget(struct host_process *process) {
    struct process_table *table = &process->stream->processes;
    if (!process->is_listed)
        return;
    struct host_process **at = &table->buckets[bucket_of(table, process->pid)];
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    process->is_listed = false;
    table->count--;
    process_release(process);
}

/* False: none is remembered. */
static bool forget_ended(struct process_table *table) {
    if (table->ended_first == table->ended_next)
        return false;
    struct host_process *oldest = table->ended[table->ended_first++ % HOST_MAX_ENDED];
    forget(oldest);
    process_release(oldest);
    return true;
}

void process_table_finish(struct process_table *table) {
    while (forget_ended(table))
        continue;
    for (uint32_t i = 0; i < HOST_BUCKETS; i++) {
        while (table->buckets[i])
            forget(table->buckets[i]);
    }
    hash_index_finish(&table->seed);
}

struct host_process *process_find(const struct process_table *table, pid_t pid) {
    struct host_process *process = table->buckets[bucket_of(table, pid)];
    while (process && process->pid != pid)
        process = process->next;
    return process;
}

struct host_process *process_add(struct host_stream *stream, pid_t pid, pid_t parent) {
    struct process_table *table = &stream->processes;
    struct host_process *old = process_find(table, pid);
    if (old)
        forget(old);
    while (table->count >= HOST_MAX_PROCESSES && forget_ended(table))
        continue;
    struct host_process *process =
        table->count < HOST_MAX_PROCESSES ? calloc(1, sizeof *process) : NULL;
    if (!process)
        return NULL;
    struct host_process **bucket = &table->buckets[bucket_of(table, pid)];
    process->refs = 1;
    process->stream = stream;
    process->pid = pid;
    process->parent = parent;
    process->identity = (struct process_identity){.pid = pid, .pidfd = -1};
    process->is_listed = true;
    process->next = *bucket;
    *bucket = process;
    table->count++;
    return process;
}

struct host_process *process_retain(struct host_process *process) {
    process->refs++;
    return process;
}

static void drop_pending(struct host_process *process) {
    for (uint32_t i = 0; i < process->pending_count; i++)
        mapping_release(process->pending[i].mapping);
    free(process->pending);
    process->pending = NULL;
    process->pending_count = 0;
    process->is_overrun = false;
}

void process_release(struct host_process *process) {
    if (!process || --process->refs > 0)
        return;
    drop_pending(process);
    code_map_release(process->map);
    process_identity_finish(&process->identity);
    free(process->members);
    free(process);
}

void process_end(struct host_process *process) {
    struct process_table *table = &process->stream->processes;
    if (!process->is_listed || process->has_ended)
        return;
    process->has_ended = true;
    if (!process->stream->is_all) {
        forget(process);
        return;
    }
    if (table->ended_next - table->ended_first == HOST_MAX_ENDED)
        (void)forget_ended(table);
    table->ended[table->ended_next++ % HOST_MAX_ENDED] = process_retain(process);
}

bool process_read_once(struct host_process *process) {
    struct process_entry entry;
    if (process->is_read)
        return process->identity.start_ticks != 0;
    process->is_read = true;
    uint64_t before_ns = now_monotonic_ns();
    if (!process_read(process->pid, &entry))
        return false;
    process_identity_finish(&process->identity);
    if (!process_identity_of_pid(process->pid, &process->identity)) {
        process->identity = (struct process_identity){.pid = process->pid, .pidfd = -1};
        return false;
    }
    process_identity_finish(&process->identity); /* thousands of descriptors are too many */
    process->uid = entry.uid;
    process->is_kernel = entry.is_kernel;
    process->threads = entry.threads;
    process->threads_ns = before_ns;
    if (process->parent == 0)
        process->parent = entry.parent;
    memcpy(process->name, entry.name, sizeof process->name);
    return process->identity.start_ticks != 0;
}

struct host_process *process_exec(struct host_stream *stream, pid_t pid) {
    const struct host_process *old = process_find(&stream->processes, pid);
    struct host_process *process = process_add(stream, pid, old ? old->parent : 0);
    if (!process)
        return NULL;
    process->map = code_map_create();
    process->map_state = process->map ? HOST_MAP_KNOWN : HOST_MAP_UNKNOWN;
    process->losses_seen = stream->losses;
    return process;
}

void process_inherit(struct host_process *child, const struct host_process *parent) {
    child->uid = parent->uid;
    child->threads = 1;
    memcpy(child->name, parent->name, sizeof child->name);
    if (parent->map_state != HOST_MAP_KNOWN)
        return; /* read from /proc if it is needed before the child calls exec */
    child->map = code_map_retain(parent->map);
    child->map_state = HOST_MAP_KNOWN;
    child->losses_seen = parent->losses_seen;
}

/* Out of memory: the process belongs to none, and its samples are missing. */
void process_find_members(struct host_process *process) {
    struct host_stream *stream = process->stream;
    if (process->members_serial == stream->targets_serial)
        return;
    struct target **members =
        realloc(process->members, (stream->target_count + 1) * sizeof *members);
    process->member_count = 0;
    if (!members)
        return;
    process->members = members;
    process->members_serial = stream->targets_serial;
    for (struct target *target = stream->targets; target; target = target->host->next) {
        if (host_has_member(target, process))
            members[process->member_count++] = target;
    }
}
