/* SPDX-License-Identifier: Apache-2.0
 *
 * History on disk: one interface, with an engine behind it (sqlite/ or clickhouse/).
 *
 * What is recorded is a window: what was sampled of one process in some seconds, summed by thread
 * and stack. Stacks and frames are stored once and referred to by id (ids.h). Frames are raw
 * (build-id, offset); their names are stored beside them with a version, so that better names can
 * replace them.
 *
 * Writing is idempotent: a window is identified by (source, epoch, seq), and one that is stored
 * already is counted as a duplicate. store_put returns when the batch is durable.
 *
 * Strings and arrays in batches and queries are borrowed for the call. Results are in an arena that
 * the caller owns. Thread safety: any thread; calls of one store may run at the same time. They
 * block, so call them on a worker. */
#ifndef SONDE_SERVICE_STORE_STORE_H
#define SONDE_SERVICE_STORE_STORE_H

#include "api/bytes.h"
#include "api/error.h"
#include "api/profile/profile.h"

struct selector; /* service/store/selector/selector.h */
struct store;
struct store_stop;

/* Bounds of what is written; a batch beyond them is SONDE_INVALID_ARGUMENT (store_check). */
#define STORE_MAX_TEXT       1024       /* bytes of a name, path, label key or label value */
#define STORE_MAX_SYMBOL     8192       /* bytes of a function's name */
#define STORE_MAX_LABELS     64         /* of a window */
#define STORE_MAX_THREADS    255        /* of a window */
#define STORE_MAX_DEPTH      1024       /* frames of a stack */
#define STORE_MAX_LINES      256        /* inlined functions of a frame */
#define STORE_MAX_LEASE_NAME 64         /* bytes of a group's or a holder's name */
#define STORE_MAX_HOLDERS    64         /* of a group, at a time */
#define STORE_MAX_LENGTH     3600       /* seconds of a window */
#define STORE_LAST_TIME      4102444800 /* the year 2100, in Unix seconds */

struct store_label {
    const char *key, *value;
};

struct store_window {
    uint64_t source, seq; /* delivery identity: (source, epoch, seq) */
    uint32_t epoch;
    const char *event, *service, *host;
    const char *instance; /* the process's uuid: 32 hex digits */
    uint32_t pid;
    int64_t start_unix_ns; /* of the process */
    int64_t begin_unix_s;
    uint32_t length_s;
    uint64_t period_ns; /* 0 = does not apply */
    double weight;      /* what each value stands for; > 0 */
    const char *clock;
    uint64_t samples, dropped, truncated;
    /* The process's CPU clock when the window began and when it ended; both 0 = unknown. */
    uint64_t cpu_from_ns, cpu_until_ns;
    const struct store_label *labels;
    uint32_t label_count;
    const char *const *threads; /* names; "" = the main thread */
    uint32_t thread_count;
    /* Columns of row_count values. */
    const uint64_t *stack;
    const uint8_t *thread; /* index into threads */
    const int64_t *value;  /* nanoseconds or bytes, without weight */
    uint32_t row_count;
};

struct store_stack {
    const char *service; /* stack ids are per service */
    uint64_t id;
    const uint64_t *frames; /* ids, leaf first */
    uint32_t frame_count;
};

struct store_line {
    const char *function, *file;
    uint32_t line; /* 0 = unknown */
};

struct store_frame {
    uint64_t id;
    const char *build_id; /* lower-case hexadecimal; "" = unknown */
    const char *module;   /* path; "" = unknown */
    uint64_t address;     /* offset in the module's file */
    enum sonde_frame_kind kind;
    uint32_t version;               /* of the names; a larger one replaces a smaller one */
    const struct store_line *lines; /* innermost inlined function first */
    uint32_t line_count;            /* 0 = no names are known */
};

/* CPU time of one thread of a process, or of its main thread. */
struct store_total {
    uint64_t source, seq; /* delivery identity of the interval: shared by its totals */
    uint32_t epoch;
    const char *host;
    int64_t begin_unix_s;
    uint32_t length_s;
    const char *process; /* comm */
    const char *thread;  /* comm; "" = the main thread */
    int64_t cpu_ns;
};

struct store_batch {
    const struct store_window *windows;
    size_t window_count;
    const struct store_stack *stacks;
    size_t stack_count;
    const struct store_frame *frames;
    size_t frame_count;
    const struct store_total *totals;
    size_t total_count;
    /* Once it is stopped or late, nothing more is inserted and put ends with SONDE_UNAVAILABLE, so
     * that a sender that goes elsewhere knows when that is safe. NULL = never. An engine that only
     * one process can write to ignores it. */
    const struct store_stop *stop;
};

struct store_put_result {
    uint32_t stored, duplicates, rejected; /* windows; rejected also counts stacks and frames */
};

/* When to give up. Engines check it between steps, at least once a second. */
struct store_stop {
    _Atomic bool is_stopped; /* for example, the client has gone */
    uint64_t deadline_ns;    /* on the monotonic clock; 0 = none */
};
/* SONDE_CANCELLED or SONDE_DEADLINE_EXCEEDED if the query should end now. stop may be NULL. Any
 * thread. */
SONDE_MUST_USE sonde_err store_stop_check(const struct store_stop *stop, struct sonde_diag *diag);

/* Of an event that is a state, the last window of each process counts. A process has ended, and
 * does not count, if the newest window of all is younger by more than twice the pause between
 * windows: the longest mean pause of a process, or this. */
#define STORE_STATE_S 60

struct store_query {
    const char *service; /* NULL or "" = all */
    const char *event;   /* as in event.h, or a sender's own; of lists: NULL or "" = all */
    int64_t from_unix_s, until_unix_s;
    const struct selector *selector; /* NULL = everything */
    const struct store_stop *stop;   /* NULL = run to the end */
};

/* The sum of one stack over all matching windows, times weight. */
struct store_row {
    uint64_t stack;
    uint32_t service; /* index into store_merge.services */
    uint32_t thread;  /* index into store_merge.threads */
    int64_t value;
};

struct store_merge {
    struct store_row *rows;
    size_t row_count;
    const char **services, **threads;
    size_t service_count, thread_count;
    /* How complete the answer is. */
    uint64_t windows, windows_expected, samples, dropped, rows_read;
    uint32_t shards_asked, shards_answered; /* 0 = there are none */
    int64_t covered_ns; /* sum of the windows' lengths: the process time that was recorded */
    int64_t wall_ns;    /* length of the union of the windows' intervals, over all processes */
    int64_t first_unix_s, last_unix_s; /* begin of the first window, end of the last; 0 = none */
    uint64_t period_ns;                /* of the last window */
    /* Processes with a weight beyond 1 were drawn: each was recorded with the probability 1/weight.
     * How many, for how many they stand, the sum of their values and its variance by the draw. */
    uint64_t drawn;
    double drawn_for, drawn_sum, drawn_variance;
    /* Of processes whose CPU clock is known: how far it went from their first window to the end of
     * their last one, missing windows included, and how much of that was sampled. With weight. */
    int64_t counted_ns, sampled_ns;
    const char *statement; /* what the store ran, for people */
};

/* Values in steps. Points of a series are in order of time; steps without windows have none. */
struct store_point {
    int64_t time_unix_s, value;
};
struct store_series {
    const char *const *values; /* one per group_by name */
    struct store_point *points;
    size_t point_count;
    int64_t sum;
};
struct store_series_query {
    struct store_query query;
    uint32_t step_s;
    const char *const *group_by;
    size_t group_count; /* at most 8 */
    uint32_t limit;     /* the series with the largest sums; > 0 */
    /* Count only these stacks, in ascending order; steps without them have 0. NULL = all stacks. */
    const uint64_t *stacks;
    size_t stack_count;
};
struct store_series_result {
    struct store_series *series;
    size_t series_count;
    uint64_t omitted;
    struct store_merge completeness; /* without rows */
};

struct store_service {
    const char *name;
    const char *const *events;
    size_t event_count;
    uint32_t hosts, processes;
    int64_t first_unix_s, last_unix_s; /* begin of the first window, end of the last one */
    int64_t on_cpu_ns;
};

/* The host view: one row per process and thread. */
struct store_total_row {
    const char *process, *thread; /* thread "" = the main thread */
    int64_t cpu_ns;
};

/* When a host recorded: a living host sends totals every 10 s, whatever runs on it. Intervals with
 * less than STORE_HOST_PAUSE_S between them are one; they are in order and apart. */
#define STORE_HOST_PAUSE_S 5
struct store_span {
    int64_t begin_unix_s, end_unix_s;
};
struct store_host {
    const char *name;
    const struct store_span *spans;
    size_t span_count;
};

struct store_info {
    const char *engine;
    char place[512];                   /* without credentials */
    int64_t first_unix_s, last_unix_s; /* as in store_service; 0 = empty */
    uint64_t size_bytes, size_limit_bytes, windows, samples, dropped, stacks, frames;
    uint32_t keep_s, hosts;
    char trouble[256]; /* why nothing can be stored; "" = all is well */
};

/* Who of a group is alive: fleet controllers that share hosts. A lease only says who talks to whom;
 * that two hold the same for a moment does no harm. */
struct store_lease_request {
    const char *group, *holder;    /* letters, digits and _.- */
    uint32_t duration_s;           /* from now; 0 = the holder gives it up */
    const struct store_stop *stop; /* NULL = run to the end */
};
struct store_lease {
    const char *holder;
    uint32_t left_s; /* > 0 */
};

/* A change that a watcher found (service/watch). */
#define STORE_MAX_CHANGES      100000 /* that SQLite keeps; the oldest are deleted */
#define STORE_MAX_CHANGE_BYTES 65536
struct store_change {
    int64_t time_unix_s;
    const char *service;
    struct sonde_slice body; /* a packed sonde.v1.Change */
};
struct store_change_query {
    const char *service; /* "" = all */
    int64_t from_unix_s, until_unix_s;
    size_t limit;
    const struct store_stop *stop; /* NULL = run to the end */
};

/* What an engine implements. SONDE_UNAVAILABLE = try again later, nothing was stored or the store
 * can tell a repetition; SONDE_INVALID_ARGUMENT = the batch is wrong, do not repeat it. */
struct store_ops {
    sonde_err (*put)(struct store *, const struct store_batch *, struct store_put_result *,
                     struct sonde_diag *);
    sonde_err (*merge)(struct store *, const struct store_query *, struct sonde_arena *,
                       struct store_merge *, struct sonde_diag *);
    /* The stacks with these ids, in any order; unknown ones are left out. stop may be NULL, here
     * and below. */
    sonde_err (*stacks)(struct store *, const char *service, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *, struct store_stack **,
                        size_t *found, struct sonde_diag *);
    sonde_err (*frames)(struct store *, const uint64_t *ids, size_t count,
                        const struct store_stop *stop, struct sonde_arena *, struct store_frame **,
                        size_t *found, struct sonde_diag *);
    /* Frames that have no names, newest first: for naming them later. */
    sonde_err (*unnamed)(struct store *, size_t limit, struct sonde_arena *, struct store_frame **,
                         size_t *found, struct sonde_diag *);
    sonde_err (*series)(struct store *, const struct store_series_query *, struct sonde_arena *,
                        struct store_series_result *, struct sonde_diag *);
    /* The host view. SONDE_INVALID_ARGUMENT if several hosts match: the selector must name one. */
    sonde_err (*totals)(struct store *, const struct store_query *, struct sonde_arena *,
                        struct store_total_row **, size_t *row_count, struct store_merge *,
                        struct sonde_diag *);
    /* Of hosts with totals in the query's range; reads nothing else of the query. */
    sonde_err (*hosts)(struct store *, const struct store_query *, struct sonde_arena *,
                       struct store_host **, size_t *count, struct sonde_diag *);
    sonde_err (*services)(struct store *, const struct store_query *, struct sonde_arena *,
                          struct store_service **, size_t *count, struct sonde_diag *);
    /* Label names, or (name not NULL) the values of one name. At most limit, sorted. */
    sonde_err (*labels)(struct store *, const struct store_query *, const char *name, size_t limit,
                        struct sonde_arena *, const char ***texts, size_t *count, bool *is_cut,
                        struct sonde_diag *);
    /* Renews or gives up a lease, and lists those of the group that live then, sorted by holder.
     * SONDE_TOO_MANY_CAPTURES: the group is full. */
    sonde_err (*lease)(struct store *, const struct store_lease_request *, struct sonde_arena *,
                       struct store_lease **, size_t *count, struct sonde_diag *);
    /* Storing the same change again changes nothing. */
    sonde_err (*put_change)(struct store *, const struct store_change *, struct sonde_diag *);
    /* Newest first. */
    sonde_err (*changes)(struct store *, const struct store_change_query *, struct sonde_arena *,
                         struct store_change **, size_t *count, struct sonde_diag *);
    sonde_err (*info)(struct store *, const struct store_stop *stop, struct store_info *,
                      struct sonde_diag *);
    /* Deletes what is too old or too much, and rebuilds rollups of finished hours. Called now and
     * then by the owner's thread. now_unix_s is a parameter for the tests. */
    sonde_err (*maintain)(struct store *, int64_t now_unix_s, struct sonde_diag *);
    void (*close)(struct store *);
};

struct store {
    const struct store_ops *ops;
};

/* Adds a drawn process to a merge; value is its weighted sum. If a process counts w times with the
 * probability 1/w, or not at all, the variance of its share is value^2 (1 - 1/w). */
static inline void store_merge_add_drawn(struct store_merge *merge, double weight, double value) {
    merge->drawn++;
    merge->drawn_for += weight;
    merge->drawn_sum += value;
    merge->drawn_variance += value * value * (1 - 1 / weight);
}

/* How long windows are kept whose labels match. The selector does not name a thread. */
struct store_keep {
    const struct selector *selector;
    uint32_t keep_s; /* 0 = for ever */
};

/* Limits of one store. 0 = none. */
struct store_limits {
    uint32_t keep_s;
    /* Before keep_s: the first one that matches a window counts. They must outlive the store.
     * Totals of hosts have keep_s. */
    const struct store_keep *keeps;
    size_t keep_count;
    uint64_t max_bytes;
    /* After it was stopped, calls that wait for another machine, store_open included, return
     * SONDE_UNAVAILABLE within about a second and send nothing more. It must outlive the store.
     * NULL = never stopped. Engines on this machine's disk ignore it. */
    const struct store_stop *end;
};

/* The longest time that anything is kept; 0 = for ever. */
uint32_t store_longest_keep_s(const struct store_limits *limits);

/* Checks the batch, then writes it. The other operations are called through `ops`. */
SONDE_MUST_USE sonde_err store_put(struct store *, const struct store_batch *,
                                   struct store_put_result *, struct sonde_diag *);
/* SONDE_INVALID_ARGUMENT, with the field and its bound in diag. */
SONDE_MUST_USE sonde_err store_check(const struct store_batch *, struct sonde_diag *);
/* The text, cut to max bytes between characters; the copy is in the arena. NULL when out of
 * memory. */
const char *store_clip(struct sonde_arena *arena, const char *text, size_t max);
/* SONDE_TOO_MANY_CAPTURES, for engines. */
sonde_err store_lease_refuse(const struct store_lease_request *wanted, struct sonde_diag *diag);
void store_close(struct store *); /* NULL is fine */

#endif
