/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that a stream has seen, by pid.
 *
 * A process is created at its first sample, or when a known process forks it, and ends when its
 * last thread has exited. A stream of all processes forgets it some exits later, because its time
 * in the kernel goes on: since Linux 6.16 the exit is recorded before the memory is freed. Such a
 * stream has a record of each fork, which says when a pid is used again.
 *
 * A process's code map starts as a copy of its parent's, or is read from /proc/PID/maps by a
 * builder, and then follows the kernel's records. Records arrive in order of time, so the map is
 * always that of the record being handled. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_PROCESS_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_PROCESS_H

#include "service/engine/core/target.h"
#include "service/engine/host/stream/code_map.h"
#include "service/engine/host/stream/host_target.h"

#define HOST_MAX_PROCESSES 16384u /* of one stream; the samples of further ones are dropped */
#define HOST_BUCKETS       4096u
#define HOST_MAX_PENDING   1024u /* mappings that arrive while the maps are read */
#define HOST_MAX_ENDED     256u  /* processes that are remembered after they have ended */

struct host_stream;

enum host_map_state {
    HOST_MAP_UNKNOWN = 0,
    HOST_MAP_READING, /* a builder reads /proc/PID/maps */
    HOST_MAP_KNOWN,
    HOST_MAP_GONE, /* the process had ended before its maps were read */
};

struct host_process {
    uint32_t refs;             /* the table's, and those of jobs and parked samples */
    struct host_process *next; /* in its bucket */
    struct host_stream *stream;
    pid_t pid, parent; /* parent 0 = unknown */
    uid_t uid;
    bool is_read;   /* identity, uid and name were read from /proc, if it was still there */
    bool is_listed; /* in the table */
    bool has_ended; /* its last thread has exited */
    bool is_kernel; /* a kernel thread */
    struct process_identity identity; /* start_ticks 0 = not known */
    char name[64];
    uint32_t threads;
    uint64_t threads_ns; /* when they were counted; 0 = never */

    struct code_map *map; /* NULL = not known */
    enum host_map_state map_state;
    uint64_t losses_seen; /* stream->losses when the maps were read; older maps are read again */
    struct code_map_change *pending; /* those that arrived while the maps are read */
    uint32_t pending_count;
    bool is_overrun; /* more than HOST_MAX_PENDING: read the maps again */

    struct target **members; /* the stream's targets that it belongs to */
    uint32_t member_count;
    uint64_t members_serial; /* the stream's targets_serial at that time; 0 = not known */
};

struct process_table {
    struct host_process *buckets[HOST_BUCKETS];
    struct hash_index seed; /* only its seed is used: entries of an index cannot be removed */
    uint32_t count;
    struct host_process *ended[HOST_MAX_ENDED]; /* a queue in a circle, and its two ends */
    uint32_t ended_first, ended_next;
};

void process_table_init(struct process_table *table);
void process_table_finish(struct process_table *table);
struct host_process *process_find(const struct process_table *table, pid_t pid);
/* A new process of that pid, which replaces one that had it before. NULL: too many, or out of
 * memory. */
struct host_process *process_add(struct host_stream *stream, pid_t pid, pid_t parent);
/* Its last thread has exited. */
void process_end(struct host_process *process);
struct host_process *process_retain(struct host_process *process);
void process_release(struct host_process *process);

/* Reads identity and name from /proc, once. False: the process is gone. */
bool process_read_once(struct host_process *process);
/* It runs another program: as a new process with an empty map. Samples of the old one may still
 * wait. NULL: as process_add. */
struct host_process *process_exec(struct host_stream *stream, pid_t pid);
/* A known process has forked it. */
void process_inherit(struct host_process *child, const struct host_process *parent);
/* Finds out to which of the stream's targets it belongs; cheap if neither has changed. */
void process_find_members(struct host_process *process);

#endif
