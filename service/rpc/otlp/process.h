/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of one OTLP profile, told apart by service and pid, and their rows. Internal to
 * service/rpc/otlp. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_OTLP_PROCESS_H
#define SONDE_SERVICE_RPC_OTLP_PROCESS_H

#include "api/hash_index.h"
#include "service/rpc/otlp/delivery.h"
#include "service/rpc/otlp/resource.h"

struct otlp_row {
    uint32_t process;
    uint8_t thread;
    uint64_t stack;
    int64_t value;
};

struct otlp_process {
    const char *service;
    int64_t pid; /* -1 = unknown */
    const char *threads[STORE_MAX_THREADS];
    uint32_t thread_count;
    uint64_t samples, truncated;
};

struct otlp_processes {
    const otlp_dictionary *dictionary;
    const struct otlp_resource *resource;
    struct sonde_arena *arena;
    struct hash_index index;
    struct store_list list; /* struct otlp_process */
};

void otlp_processes_init(struct otlp_processes *processes, const otlp_dictionary *dictionary,
                         const struct otlp_resource *resource, struct sonde_arena *arena);
void otlp_processes_finish(struct otlp_processes *processes);
struct otlp_process *otlp_process_at(const struct otlp_processes *processes, uint32_t number);
/* Sets the process and the thread of a sample's row. SONDE_TOO_LARGE beyond OTLP_MAX_PROCESSES. */
SONDE_MUST_USE sonde_err otlp_process_find(struct otlp_processes *processes,
                                           const otlp_sample *sample, struct otlp_row *row,
                                           struct sonde_diag *diag);

#endif
