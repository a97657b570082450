/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's own state, for its files and their tests.
 *
 *     any thread ── message ──▶ engine thread ── job ──▶ worker ── message ──▶ engine thread
 *
 * The engine thread owns targets, captures, rings and sockets, so these need no locks. Other
 * threads read the list of targets and each target's `info` under targets_lock. A job runs on a
 * worker and then returns to the engine thread as a message. All events of a capture are jobs of
 * that capture, which run one at a time, so events never overlap. There are two pools: `builders`
 * for what may take seconds (tables, or the names of a new file), `reporters` for what a client
 * waits for. */
#ifndef SONDE_SERVICE_ENGINE_CORE_ENGINE_STATE_H
#define SONDE_SERVICE_ENGINE_CORE_ENGINE_STATE_H

#include "api/base/container_of.h"
#include "service/engine/pool.h"
#include "service/guest/ring.h"
#include "service/host/rights.h"
#include "service/locks.h"

#define ENGINE_MAX_TARGETS   4096u
#define ENGINE_MAX_OF_USER   1024u /* connections of a user other than sonded's */
#define ENGINE_DRAIN_NS      20000000ull
#define ENGINE_DRAIN_SLOW_NS 200000000ull /* at low rates */
#define ENGINE_DRAIN_TICKS   20u          /* in between: drain after this many ticks of a thread */
#define ENGINE_DRAIN_PART    32u          /* if 1/32 of a ring was filled, drain at the high rate */
#define ENGINE_DRAIN_BYTES   (8u << 20)   /* per target and turn */
/* CPU time of the engine thread per target and turn, once for the target's frames and once for its
 * rings. What is left has its turn after the other targets. */
#define ENGINE_TURN_NS 2000000ull
/* Per user and turn, for the frames of all targets, because a user may have many. */
#define ENGINE_USER_NS    8000000ull
#define ENGINE_USER_SLOTS 256u /* users by the lowest bits of their uid */
/* The same for the last records of a capture. What is left is dropped and counted. */
#define ENGINE_LAST_NS         100000000ull
#define ENGINE_HELLO_NS        5000000000ull
#define ENGINE_START_NS        10000000000ull /* limit for a guest to start its clocks */
#define ENGINE_STOP_NS         500000000ull   /* limit for its last records after a stop */
#define ENGINE_NAMES_NS        2000000000ull  /* how long a report waits for names and lines */
#define ENGINE_NAMES_LOOK_NS   20000000ull    /* between two checks whether they have arrived */
#define ENGINE_NAMES_SPARE_NS  1000000000ull  /* time to leave before the client gives up */
#define ENGINE_MAX_QUEUED_JOBS 4u /* per capture; with more, its window stays open longer */
#define ENGINE_SUBMIT_LIMIT    1024u
#define ENGINE_MAX_COMMAND     65536u

struct host; /* host/stream/stream.h */
struct sampler;
struct target;
struct unwind_cache;

/* Something to run on the engine thread. */
struct message {
    struct message *next;
    void (*run)(struct engine *engine, struct message *message);
};

/* Something to run on a worker. Afterwards `complete` runs on the engine thread and frees the
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
                  DROP_UNREAD,
                  DROP_PROCESSES,
                  DROP_MEMORY, /* memory_share.h: the target's user has no more room */
                  DROP_CAUSES
};
_Static_assert(DROP_CAUSES < ENGINE_DROP_CAUSES, "engine.h has room for every cause");
const char *drop_cause_name(int cause); /* counters.c */

struct engine {
    char *socket_path, *data_dir;
    struct symbol_store *symbols;
    struct unwind_cache *unwind;
    struct host *host;       /* sampling from outside */
    struct sampler *sampler; /* not owned; NULL = this process */
    struct pool *builders, *reporters;
    struct pool *checkers; /* one thread, for unwind checks, which take seconds */
    struct lock rights_lock;
    struct {
        bool is_granted;
        uint64_t read_ns; /* 0 = never */
    } rights[RIGHT_KINDS];
    int epoll_fd, event_fd, timer_fd, listen_fd, lock_fd;
    pthread_t thread;
    bool has_thread, has_locks;

    struct lock messages_lock;
    struct message *first_message, **last_message;

    /* Guards the list of targets and the fields of struct target marked (list). Only the engine
     * thread changes them. */
    struct lock targets_lock;
    struct target *targets;      /* also those that are gone but still have captures */
    uint32_t target_count;       /* attached ones: those with a guest */
    struct target *newcomers;    /* host targets that the engine thread has not seen yet */
    _Atomic uint32_t host_count; /* host targets that have not ended, with the newcomers */
    uint32_t heap_dumps;         /* to keep per target */
    enum engine_source source;   /* what ENGINE_AUTOMATIC means */
    struct lock session_lock;
    struct lock watch_lock;
    struct engine_watch *watches;

    /* Engine thread only. */
    uint32_t link_count; /* connections, including those without a Hello */
    int spare_fd;        /* closed for a moment when descriptors run out, to refuse a guest */
    bool is_shutting_down;
    bool is_sweeping;                          /* heap_start_sweep */
    uint64_t user_spent_ns[ENGINE_USER_SLOTS]; /* in this turn, reading frames */
    uint64_t random;
    uint64_t timer_ns; /* when the timer fires, 0 = never */
    char *scratch;     /* for one read */

    /* ENGINE_START_NS, ENGINE_TURN_NS, ENGINE_USER_NS, ENGINE_LAST_NS and HOST_IDLE_NS, except in
     * tests. */
    _Atomic uint64_t start_ns, turn_ns, user_ns, last_ns, idle_ns;
    _Atomic bool is_ending;
    _Atomic uint64_t jobs_running; /* submitted and not completed */
    _Atomic uint32_t captures_running, streams_running, checks_waiting;
    _Atomic uint64_t captures_total, samples_total;
    _Atomic uint64_t drops[DROP_CAUSES];
};

/* --- thread.c */

uint64_t now_monotonic_ns(void);
int64_t now_unix_ns(void);
/* CPU time of the calling thread. Budgets are measured with it, because other processes on a busy
 * machine do not use it up. */
uint64_t thread_cpu_ns(void);
/* The earlier of two times; 0 = never. */
static inline uint64_t earlier(uint64_t a_ns, uint64_t b_ns) {
    return a_ns == 0 || (b_ns != 0 && b_ns < a_ns) ? b_ns : a_ns;
}
void engine_post(struct engine *engine, struct message *message); /* any thread */
/* For work that no target causes; target_start_job is for the others. */
void engine_start_job(struct engine *engine, struct pool *pool, struct job *job);
/* Makes a job ready for a pool, which runs job->work. */
void engine_prepare_job(struct engine *engine, struct job *job);
void engine_wake(struct engine *engine); /* any thread */
uint64_t engine_random(struct engine *engine);

/* --- rights.c */

/* The row of engine_rights, up to ENGINE_RIGHTS_NS old; only this right is tried. Any thread; may
 * block for some milliseconds. */
#define ENGINE_RIGHTS_NS 5000000000ull
bool engine_has_right(struct engine *engine, enum host_right_kind kind);

#endif
