/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share. Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_PERF_DATA_PARTS_H
#define SONDE_SERVICE_ENGINE_PERF_DATA_PARTS_H

#include "api/hash_index.h"
#include "service/engine/host/stream/code_map.h"
#include "service/engine/perf_data/perf_data.h"
#include "service/engine/report/stacks.h"
#include "service/host/perf_file/perf_file.h"
#include "service/unwind/copy/copy.h"

#define RECORDED_MAX_TASKS \
    (1u << 20) /* processes, and threads; further ones have no maps and names */
#define RECORDED_MAX_FILES   (1u << 18)
#define RECORDED_MAX_ENTRIES (1u << 22) /* of counts; further stacks are counted as one */

/* ---- processes.c: the processes and threads at one time of the recording ---- */

struct recorded_process {
    int32_t pid;
    uint32_t threads;     /* that have not ended */
    struct code_map *map; /* NULL = nothing is mapped */
    char name[HOST_COMM_BYTES];
    bool is_sampled;
};

struct recorded_thread {
    int32_t tid;
    char name[HOST_COMM_BYTES];
};

struct recorded_processes {
    struct recorded_process *items;
    struct recorded_thread *threads;
    uint32_t count, capacity, thread_count, thread_capacity;
    struct hash_index index, thread_index;
    uint32_t sampled; /* processes that have samples */
};

void recorded_processes_init(struct recorded_processes *processes);
void recorded_processes_finish(struct recorded_processes *processes);
/* Follows a record of a process; of a mapping, `mapping` is it. False: out of memory. */
bool recorded_processes_follow(struct recorded_processes *processes,
                               const struct perf_file_record *record, struct mapping *mapping);
/* The process of a sample; NULL: too many, or out of memory. */
struct recorded_process *recorded_processes_sampled(struct recorded_processes *processes,
                                                    int32_t pid);
/* Its name, also if it has none. */
const char *recorded_process_name(const struct recorded_process *process);
/* A thread's name, or that of its process; "" = unknown. */
const char *recorded_thread_name(const struct recorded_processes *processes, int32_t tid,
                                 const struct recorded_process *process);

/* ---- code.c: the files behind the mappings ---- */

/* A mapping's inode is the number of its file here, which outlives splits of the mapping. */
struct recorded_file {
    char *path;
    char build_id[PERF_FILE_BUILD_ID]; /* "" = unknown */
    uint64_t inode;                    /* 0 = unknown */
    uint32_t device_major, device_minor;
};

struct recorded_code {
    const struct perf_file *file;
    struct symbol_store *symbols;
    struct unwind_cache *tables;
    struct unwind_views *views;
    struct unwind_walker *walker;
    struct mapping *kernel;
    uint64_t kernel_start; /* where perf found it; 0 = unknown */
    struct recorded_file *files;
    uint32_t file_count, file_capacity;
    struct hash_index index;
    uint32_t unchecked; /* mappings whose file was found by its path, and is perhaps another one */
};

SONDE_MUST_USE sonde_err recorded_code_init(struct recorded_code *code,
                                            const struct perf_file *file,
                                            const struct perf_data_options *options,
                                            struct sonde_diag *diag);
/* After the last mapping was released. */
void recorded_code_finish(struct recorded_code *code);
/* The mapping of a record, which the caller releases. NULL: out of memory, too many files, or the
 * kernel's, which is only noted. */
struct mapping *recorded_code_mapping(struct recorded_code *code,
                                      const struct perf_file_record *record);
/* Opens the file and the unwind table of a mapping of a process with that name. */
void recorded_code_open(struct recorded_code *code, struct mapping *mapping, const char *name);
/* Loads the names of the kernel if the file was recorded since this machine has booted. */
void recorded_code_open_kernel(struct recorded_code *code);

/* ---- counts.c: samples by stack, thread and event ---- */

struct recorded_count {
    uint32_t stack, thread, event;
    uint64_t samples, amount;
};

struct recorded_counts {
    struct stacks *stacks;
    struct recorded_count *items;
    uint32_t count, capacity, limit;
    struct hash_index index;
    uint32_t other; /* the stack of samples for which there is no room */
    uint64_t other_samples;
    uint64_t ends[STACK_ENDS];
    uint64_t lost, lost_samples; /* of newer kernels both have all; of older ones, one is 0 */
};

SONDE_MUST_USE sonde_err recorded_counts_init(struct recorded_counts *counts);
void recorded_counts_finish(struct recorded_counts *counts);
/* Walks the stack of a sample and counts it. False: out of memory. */
bool recorded_counts_add(struct recorded_counts *counts, struct recorded_code *code,
                         struct recorded_processes *processes,
                         const struct perf_file_record *record);

/* ---- profile.c ---- */

SONDE_MUST_USE sonde_err recorded_profile(const struct recorded_counts *counts,
                                          const struct recorded_code *code,
                                          const struct recorded_processes *processes,
                                          struct sonde_profile **profile, struct sonde_diag *diag);

#endif
