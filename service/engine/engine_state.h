/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the engine, shared by its files and its tests only.
 *
 *     any thread ── message ──▶ engine thread ── job ──▶ worker ── message ──▶ engine thread
 *
 * The engine thread owns targets, captures, rings and sockets: no locks there. Other threads read
 * the registry (a target's `info` and `session`) under targets_lock. A job runs on a worker, then
 * comes back to the engine thread as a message. All events of a capture are jobs of that capture,
 * of which one runs at a time: so its events never overlap. Two pools: `builders` for what may take
 * seconds (tables, names of a file not seen before), `reporters` for what a client waits for. */
#ifndef SONDE_SERVICE_ENGINE_ENGINE_STATE_H
#define SONDE_SERVICE_ENGINE_ENGINE_STATE_H

#include "api/container_of.h"
#include "service/engine/guest_link/drain.h"
#include "service/engine/guest_link/guest_frames.h"
#include "service/engine/pool.h"
#include "service/engine/report/address_space.h"
#include "service/engine/report/report.h"
#include "service/engine/report/thread_names.h"
#include "service/locks.h"

#define ENGINE_MAX_TARGETS     4096u
#define ENGINE_MAX_OF_USER     1024u /* of another user than sonded's; their links, too */
#define ENGINE_DRAIN_NS        20000000ull
#define ENGINE_DRAIN_SLOW_NS   200000000ull /* at low rates */
#define ENGINE_DRAIN_TICKS     20u          /* in between, after so many ticks of one thread */
#define ENGINE_DRAIN_PART      32u          /* past such a part of a ring as at high rates */
#define ENGINE_DRAIN_BYTES     (8u << 20)   /* of one target at a turn */
#define ENGINE_HELLO_NS        5000000000ull
#define ENGINE_START_NS        10000000000ull /* for a guest to start its clocks */
#define ENGINE_STOP_NS         500000000ull   /* for its last records, when it stops */
#define ENGINE_NAMES_NS        2000000000ull  /* a report waits so long for names and lines */
#define ENGINE_NAMES_LOOK_NS   20000000ull    /* between two looks at what it waits for */
#define ENGINE_NAMES_SPARE_NS  1000000000ull  /* left before the client gives up */
#define ENGINE_MAX_QUEUED_JOBS 4u /* of one capture: a window stays open rather than queue */
#define ENGINE_SUBMIT_LIMIT    1024u
#define ENGINE_MAX_COMMAND     65536u

struct target;
struct unwind_cache;

/* Something for the engine thread to do. */
struct message {
    struct message *next;
    void (*run)(struct engine *engine, struct message *message);
};

/* Work for a worker. `perform` runs there, `complete` on the engine thread afterwards and frees the
 * job. */
struct job {
    struct engine_work work;
    struct message message;
    struct engine *engine;
    void (*perform)(struct job *job);
    void (*complete)(struct engine *engine, struct job *job);
};

enum drop_cause { /* the first RING_DROP_COUNT are the guest's */
                  DROP_CORRUPT = RING_DROP_COUNT,
                  DROP_STACKS_FULL,
                  DROP_CAUSES
};
_Static_assert(DROP_CAUSES <= ENGINE_DROP_CAUSES, "engine.h has room for every cause");
const char *drop_cause_name(int cause);

struct engine {
    char *socket_path, *data_dir;
    struct symbol_store *symbols;
    struct unwind_cache *unwind;
    struct pool *builders, *reporters;
    int epoll_fd, event_fd, timer_fd, listen_fd, lock_fd;
    pthread_t thread;
    bool has_thread, has_locks;

    struct lock messages_lock;
    struct message *first_message, **last_message;

    struct lock targets_lock; /* guards what is marked (registry) */
    struct target *targets; /* (registry) also those that are gone with captures left; list changes
                               by engine thread */
    uint32_t target_count;  /* (registry) attached ones */
    struct lock session_lock;
    struct lock watch_lock;
    struct engine_watch *watches;

    /* Engine thread only. */
    uint32_t link_count; /* connections, with or without hello */
    int spare_fd;        /* given up for a moment when descriptors run out, to refuse a guest */
    bool is_shutting_down;
    bool is_sweeping; /* heap_start_sweep */
    uint64_t random;
    uint64_t timer_ns; /* what the timer is set to, 0 = off */
    char *scratch;     /* one read */

    _Atomic bool is_ending;
    _Atomic uint64_t jobs_running; /* submitted, and not back yet */
    _Atomic uint32_t captures_running, streams_running;
    _Atomic uint64_t captures_total, samples_total;
    _Atomic uint64_t drops[DROP_CAUSES];
};

/* loop.c */
uint64_t now_monotonic_ns(void);
int64_t now_unix_ns(void);
void engine_post(struct engine *engine, struct message *message); /* any thread */
void engine_start_job(struct engine *engine, struct pool *pool, struct job *job);
/* One round: waits at most timeout_ms (-1 = until something happens). False when the engine has
 * ended. */
bool engine_round(struct engine *engine, int timeout_ms);
void *engine_run(void *engine);
void engine_wake_at(struct engine *engine, uint64_t at_ns);
uint64_t engine_random(struct engine *engine);

/* engine.c: everything but the thread, for tests and fuzzers. */
SONDE_MUST_USE sonde_err engine_open(const struct engine_options *options, struct engine **engine,
                                     struct sonde_diag *diag);
void engine_close(struct engine *engine);

/* listen.c */
SONDE_MUST_USE sonde_err listen_open(const char *path, bool for_everybody, int *listen_fd,
                                     int *lock_fd, struct sonde_diag *diag);
void listen_close(const char *path, int listen_fd, int lock_fd);

#endif
