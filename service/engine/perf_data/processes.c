/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/perf_data/parts.h"

#include "api/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void recorded_processes_init(struct recorded_processes *processes) {
    *processes = (struct recorded_processes){0};
    hash_index_init(&processes->index);
    hash_index_init(&processes->thread_index);
}

void recorded_processes_finish(struct recorded_processes *processes) {
    for (uint32_t i = 0; i < processes->count; i++)
        code_map_release(processes->items[i].map);
    free(processes->items);
    free(processes->threads);
    hash_index_finish(&processes->index);
    hash_index_finish(&processes->thread_index);
    *processes = (struct recorded_processes){0};
}

static struct recorded_process *find(const struct recorded_processes *processes, int32_t pid) {
    uint32_t hash = hash_index_words(&processes->index, (uint32_t)pid, 0), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&processes->index, &probe)) != HASH_INDEX_NONE)
        if (processes->items[number].pid == pid)
            return &processes->items[number];
    return NULL;
}

static struct recorded_process *find_or_add(struct recorded_processes *processes, int32_t pid) {
    struct recorded_process *found = find(processes, pid);
    uint32_t hash = hash_index_words(&processes->index, (uint32_t)pid, 0);
    if (found || processes->count >= RECORDED_MAX_TASKS)
        return found;
    if (!array_room(&processes->items, &processes->capacity, processes->count, 1) ||
        !hash_index_add(&processes->index, hash, processes->count))
        return NULL;
    found = &processes->items[processes->count++];
    *found = (struct recorded_process){.pid = pid, .threads = 1};
    if (pid == 0) /* perf's name of the idle task, which no record names */
        snprintf(found->name, sizeof found->name, "swapper");
    return found;
}

static struct recorded_thread *find_thread(const struct recorded_processes *processes,
                                           int32_t tid) {
    uint32_t hash = hash_index_words(&processes->thread_index, (uint32_t)tid, 0), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&processes->thread_index, &probe)) != HASH_INDEX_NONE)
        if (processes->threads[number].tid == tid)
            return &processes->threads[number];
    return NULL;
}

static bool name_thread(struct recorded_processes *processes, int32_t tid, const char *name) {
    struct recorded_thread *thread = find_thread(processes, tid);
    uint32_t hash = hash_index_words(&processes->thread_index, (uint32_t)tid, 0);
    if (!thread && processes->thread_count >= RECORDED_MAX_TASKS)
        return true;
    if (!thread) {
        if (!array_room(&processes->threads, &processes->thread_capacity, processes->thread_count,
                        1) ||
            !hash_index_add(&processes->thread_index, hash, processes->thread_count))
            return false;
        thread = &processes->threads[processes->thread_count++];
        thread->tid = tid;
    }
    snprintf(thread->name, sizeof thread->name, "%s", name);
    return true;
}

static void forget_map(struct recorded_process *process) {
    code_map_release(process->map);
    process->map = NULL;
}

static bool add_thread(struct recorded_processes *processes, struct recorded_process *process,
                       int32_t tid) {
    process->threads++;
    return name_thread(processes, tid, process->name);
}

static bool fork_process(struct recorded_processes *processes,
                         const struct perf_file_record *record) {
    struct recorded_process *process = find_or_add(processes, record->pid);
    if (process && record->fork.parent_pid == record->pid)
        return record->tid == record->pid || add_thread(processes, process, record->tid);
    if (!process)
        return processes->count >= RECORDED_MAX_TASKS;
    forget_map(process);
    process->threads = 1;
    const struct recorded_process *parent = find(processes, record->fork.parent_pid);
    if (!parent)
        return true;
    if (!record->fork.has_own_map)
        process->map = code_map_retain(parent->map);
    memcpy(process->name, parent->name, sizeof process->name);
    return name_thread(processes, record->tid, parent->name);
}

static bool set_name(struct recorded_processes *processes, const struct perf_file_record *record) {
    struct recorded_process *process = find_or_add(processes, record->pid);
    if (process && record->comm.is_exec) {
        forget_map(process);
        process->threads = 1;
    }
    if (process && record->pid == record->tid)
        snprintf(process->name, sizeof process->name, "%s", record->comm.name);
    else if (process && !find_thread(processes, record->tid))
        process->threads++; /* `perf record -p` names the threads that it finds, without forks */
    return name_thread(processes, record->tid, record->comm.name);
}

/* Samples of a process can follow the end of its first thread. */
static void end_thread(struct recorded_processes *processes, int32_t pid) {
    struct recorded_process *process = find(processes, pid);
    if (!process)
        return;
    process->threads -= process->threads > 0;
    if (process->threads == 0)
        forget_map(process);
}

static bool map(struct recorded_processes *processes, int32_t pid, struct mapping *mapping) {
    struct recorded_process *process = find_or_add(processes, pid);
    if (!process)
        return processes->count >= RECORDED_MAX_TASKS;
    if (!process->map)
        process->map = code_map_create();
    return process->map && code_map_add(&process->map, mapping);
}

bool recorded_processes_follow(struct recorded_processes *processes,
                               const struct perf_file_record *record, struct mapping *mapping) {
    switch (record->kind) {
    case PERF_FILE_MMAP:
        return !mapping || map(processes, record->pid, mapping);
    case PERF_FILE_COMM:
        return set_name(processes, record);
    case PERF_FILE_FORK:
        return fork_process(processes, record);
    case PERF_FILE_EXIT:
        end_thread(processes, record->pid);
        return true;
    default:
        return true;
    }
}

struct recorded_process *recorded_processes_sampled(struct recorded_processes *processes,
                                                    int32_t pid) {
    struct recorded_process *process = find_or_add(processes, pid);
    if (process && !process->is_sampled) {
        process->is_sampled = true;
        processes->sampled++;
    }
    return process;
}

const char *recorded_process_name(const struct recorded_process *process) {
    return process && process->name[0] ? process->name : "[unknown process]";
}

const char *recorded_thread_name(const struct recorded_processes *processes, int32_t tid,
                                 const struct recorded_process *process) {
    const struct recorded_thread *thread = find_thread(processes, tid);
    return thread ? thread->name : process ? process->name : "";
}
