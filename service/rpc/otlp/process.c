/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/process.h"

#include <stdlib.h>
#include <string.h>

/* What a sample's attributes say. */
struct origin {
    const char *service, *executable, *thread;
    int64_t pid, tid;
};

void otlp_processes_init(struct otlp_processes *processes, const otlp_dictionary *dictionary,
                         const struct otlp_resource *resource, struct sonde_arena *arena) {
    *processes =
        (struct otlp_processes){.dictionary = dictionary, .resource = resource, .arena = arena};
    processes->list.item_size = sizeof(struct otlp_process);
    hash_index_init(&processes->index);
}

void otlp_processes_finish(struct otlp_processes *processes) {
    hash_index_finish(&processes->index);
    free(processes->list.items);
}

struct otlp_process *otlp_process_at(const struct otlp_processes *processes, uint32_t number) {
    return (struct otlp_process *)(void *)processes->list.items + number;
}

static void read_origin(const otlp_dictionary *dictionary, const otlp_sample *sample,
                        struct origin *origin) {
    struct otlp_attribute attribute;
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        if (!otlp_attribute_at(dictionary, sample->attribute_indices[i], &attribute))
            continue;
        const struct {
            const char *key, **text;
            int64_t *number;
        } fields[] = {{"service.name", &origin->service, NULL},
                      {"process.executable.name", &origin->executable, NULL},
                      {"thread.name", &origin->thread, NULL},
                      {"process.pid", NULL, &origin->pid},
                      {"thread.id", NULL, &origin->tid}};
        for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
            if (strcmp(attribute.key, fields[k].key) != 0)
                continue;
            if (fields[k].text)
                *fields[k].text = attribute.text;
            else
                *fields[k].number = attribute.number;
        }
    }
}

/* The first that is known: the service, its executable, a placeholder. */
static const char *service_of(const struct otlp_resource *resource, const struct origin *origin) {
    const char *const names[] = {origin->service, resource->service, origin->executable,
                                 resource->executable};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i][0])
            return names[i];
    return "unknown";
}

static uint32_t find(const struct otlp_processes *processes, uint32_t hash, const char *service,
                     int64_t pid) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&processes->index, &probe)) != HASH_INDEX_NONE) {
        const struct otlp_process *process = otlp_process_at(processes, number);
        if (process->pid == pid && strcmp(process->service, service) == 0)
            break;
    }
    return number;
}

static sonde_err add(struct otlp_processes *processes, uint32_t hash, const char *service,
                     int64_t pid, uint32_t *number, struct sonde_diag *diag) {
    if (processes->list.count == OTLP_MAX_PROCESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "a profile has samples of more than %d processes; send several profiles",
                          OTLP_MAX_PROCESSES);
    *number = (uint32_t)processes->list.count;
    struct otlp_process *process = store_list_add(&processes->list);
    if (!process || !hash_index_add(&processes->index, hash, *number))
        return SONDE_OUT_OF_MEMORY;
    process->service = service;
    process->pid = pid;
    return SONDE_OK;
}

/* Names beyond the limit share the last number. */
static uint8_t thread_number(struct otlp_process *process, const char *name) {
    for (uint32_t i = 0; i < process->thread_count; i++)
        if (strcmp(process->threads[i], name) == 0)
            return (uint8_t)i;
    if (process->thread_count == STORE_MAX_THREADS)
        return STORE_MAX_THREADS - 1;
    if (process->thread_count == STORE_MAX_THREADS - 1)
        name = "(other threads)";
    process->threads[process->thread_count] = name;
    return (uint8_t)process->thread_count++;
}

sonde_err otlp_process_find(struct otlp_processes *processes, const otlp_sample *sample,
                            struct otlp_row *row, struct sonde_diag *diag) {
    struct origin origin = {
        .service = "", .executable = "", .thread = "", .pid = processes->resource->pid, .tid = -1};
    read_origin(processes->dictionary, sample, &origin);
    const char *service =
        store_clip(processes->arena, service_of(processes->resource, &origin), STORE_MAX_TEXT);
    /* "" is the main thread: its own name is the program's. */
    bool is_main = origin.tid >= 0 && origin.tid == origin.pid;
    const char *thread = store_clip(processes->arena, is_main ? "" : origin.thread, STORE_MAX_TEXT);
    if (!service || !thread)
        return SONDE_OUT_OF_MEMORY;
    uint32_t hash = hash_index_data(&processes->index, service, strlen(service));
    hash = hash_index_words(&processes->index, hash, (uint64_t)origin.pid);
    row->process = find(processes, hash, service, origin.pid);
    sonde_err err = row->process != HASH_INDEX_NONE
                        ? SONDE_OK
                        : add(processes, hash, service, origin.pid, &row->process, diag);
    if (!err)
        row->thread = thread_number(otlp_process_at(processes, row->process), thread);
    return err;
}
