/* SPDX-License-Identifier: Apache-2.0
 *
 * Every lock of sonded, by rank. A thread may take a lock only if its rank is higher than the ranks
 * of all locks that the thread holds, so no two threads can wait for each other. Builds without
 * NDEBUG check this and abort with the names of both locks.
 *
 * The guest's two locks are not listed, because they are in another process: the one in
 * service/guest/start.c may be held when the one in sampling/sampled_threads.c is taken. The locks
 * of api/os/secrets/tls_files.c and api/os/secrets/token_file.c are not listed, because other
 * programs use them,
 * too: no lock is taken under them.
 *
 * A struct lock is zeroed memory plus lock_init. Any thread.
 *
 * The threads of each program; data crosses between them by messages, and the locks below are few:
 *
 *     target         one of ours, "sonde". It holds no lock that a handler or the application takes
 *     sonded         main, engine, RPC loop, builders, reporters. History: a writer, a clock reader
 *                    and query workers. One per receiver of --otlp and --pyroscope. One for all
 *                    sessions of Collect and two for each. One for each --register. Changes: one
 *                    that looks for them and one for --watch-webhook
 *     its readers    processes with one thread each, forked by a keeper ("sonde-memory"): they read
 *                    other processes' memory, and one that hangs is left behind
 *                    (service/process/foreign_memory.h)
 *     sonde-sampler  one, in a process that starts another if it dies. It answers requests of a
 *                    fixed size, one at a time
 *     sonde-gateway  main (HTTP loop), signals, RPC client. Answers are posted to the HTTP loop
 *     sonde-collect  main (ticks ten times a second), RPC client, spool, delivery, discovery; HTTP
 *                    for --metrics, calls for --grpc, the lease for --group. One lock for all hosts
 *     sonde          main, which waits, and the RPC client */
#ifndef SONDE_SERVICE_LOCKS_H
#define SONDE_SERVICE_LOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Lowest first. Add a row for every new lock. */
enum lock_rank {
    LOCK_NONE = 0,
    LOCK_SESSION,       /* engine: the sessions (StartCpu, StartAllocs) of all targets */
    LOCK_WATCH,         /* engine: the list of watches; held while their events run */
    LOCK_RECORDER,      /* engine: recorded targets; held while their captures start */
    LOCK_TARGETS,       /* engine: the list of targets, and what callers see of each */
    LOCK_MESSAGES,      /* engine: messages to the engine thread */
    LOCK_POOL,          /* engine: a worker pool's queue */
    LOCK_RIGHTS,        /* engine: which rights it had when they were last tried */
    LOCK_PROC_MAPS,     /* service/symbol: a copy of a process's mappings, while it is read */
    LOCK_UNWIND_CACHE,  /* service/unwind: tables by build-id */
    LOCK_UNWIND_VIEWS,  /* service/unwind: tables mapped into this process */
    LOCK_SYMBOL_STORE,  /* service/symbol: modules by identity */
    LOCK_SYMBOL_MODULE, /* service/symbol: one module's tables */
    LOCK_JIT_FILES,     /* service/symbol: files of one JIT process are read at a time */
    LOCK_MAINTENANCE,   /* service: the thread that maintains the store, while it pauses */
    LOCK_WATCHER,       /* service/watch: what was found, and whether it ends */
    LOCK_WEBHOOK,       /* service/watch: changes that wait to be sent */
    LOCK_HISTORY_NAMES, /* service/rpc/history: questions to the engine that are not answered yet */
    LOCK_STORE_PUT,     /* service/store/clickhouse: one put at a time */
    LOCK_STORE,         /* service/store/clickhouse: the state of a store */
    LOCK_STORE_LINKS,   /* service/store/clickhouse: idle connections */
    LOCK_STORE_WRITER,  /* service/store/sqlite: the connection that writes */
    LOCK_STORE_READERS, /* service/store/sqlite: connections that read, and the state */
    LOCK_STORE_NAMES,   /* service/store/sqlite: ids of frames by number */
    LOCK_STORE_LATE,    /* service/programs: whether a store is open yet */
    LOCK_COLLECT,       /* service/collect: all sessions; held while calls are woken */
    LOCK_RPC_LOOP,      /* service/rpc: messages to the RPC loop; events post with locks held */
    LOCK_RECORDING,     /* service/recording: records that wait for the store */
    LOCK_EXPORT,        /* service/export: a destination's counters */
    LOCK_OUTGOING,      /* service/rpc/outgoing: the running call, while it is cancelled */
    LOCK_FUNCTION_RECORDER, /* service/function_times: whether its clock is to stop */
    LOCK_FUNCTION_TIMES,    /* service/function_times: the sums */
    LOCK_SAMPLER,           /* service/host/sampler: one request at a time */
    LOCK_FOREIGN_MEMORY,    /* service/process: which readers are free */
    LOCK_MEMORY_SHARE,      /* service/process: bytes by user */
    LOCK_POD_NAMES,         /* service/host/processes: two directories as they were last read */
    LOCK_RANK_COUNT
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_finish(struct lock *lock);
void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);
/* pthread_cond_wait with the lock as its mutex. */
void lock_wait(struct lock *lock, pthread_cond_t *condition);
/* The same until a time of CLOCK_MONOTONIC; false if that has passed. */
bool lock_wait_until(struct lock *lock, pthread_cond_t *condition, const struct timespec *until);

#endif
