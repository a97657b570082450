/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream: perf rings, the processes seen in them, and the host targets that use it.
 *
 *     OPENING ── a builder opens the rings ──▶ RUNNING ── the last target leaves ──▶ freed
 *
 * Records are handled in order of time. A sample whose process has no map yet, or whose walk comes
 * to code without a loaded table, is parked: copied, with the map of that moment, and walked again
 * when the builder is done. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_STREAM_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_STREAM_H

#include "service/engine/host/locks/lock_owners.h"
#include "service/engine/host/stream/counted.h"
#include "service/engine/host/stream/host_target.h"
#include "service/engine/host/stream/process.h"
#include "service/host/rings/rings.h"
#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table_view.h"

#define HOST_FIRST_STACK 4096u          /* bytes copied of a stack at first, at high rates */
#define HOST_FIRST_MAX   32768u         /* at low rates */
#define HOST_LEAK_STACK  16384u         /* of growth, which may be slow */
#define HOST_FIRST_RATE  (8u << 20)     /* bytes a second of one CPU's first copies, at most */
#define HOST_LATE_NS     5000000ull     /* records of the last moment may still be on their way */
#define HOST_STOP_NS     10000000000ull /* how long the last samples wait for their tables */
#define HOST_DITHER_NS   5000000ull     /* between two looks at which clocks get another period */
#define HOST_MAX_PARKED  (16u << 20)    /* bytes of parked samples */
#define HOST_MAX_DEPTH   512u           /* frames of the process in one stack */
#define COPY_FEW_WALKS   40u
#define COPY_MIN_WALKS   200u /* before the size of the copies changes */
#define COPY_SHRINK_NS   5000000000ull

/* What service/host/rings does; tests replace it. */
struct ring_ops {
    sonde_err (*open)(const struct rings_options *options, struct rings **rings,
                      struct sonde_diag *diag);
    void (*close)(struct rings *rings);
    void (*start)(struct rings *rings);
    void (*stop)(struct rings *rings);
    void (*set_period)(struct rings *rings, uint64_t period_ns);
    sonde_err (*add_process)(struct rings *rings, pid_t pid, struct sonde_diag *diag);
    bool (*drain)(struct rings *rings, uint64_t until_ns, host_on_record *on_record, void *context,
                  bool (*is_over)(void *context));
    int (*poll_fd)(const struct rings *rings);
    void (*counts)(const struct rings *rings, struct rings_counts *counts);
    uint64_t (*total)(const struct rings *rings); /* for counted events only */
};
extern const struct ring_ops perf_ring_ops;

/* The engine's part of sampling from outside. */
struct host {
    const struct ring_ops *ops;
    struct unwind_views *views;
    struct mapping *kernel;
    uint32_t stack_bytes; /* what the last stream of all processes needed; 0 = not known */
    struct host_stream *streams;
    uint64_t all_refused_until_ns; /* the kernel does not let this sonded sample all processes */
    char all_refused[160];         /* what it says, and what would allow it */
    int epoll_fd;                  /* the rings that are half full; in the engine's */
};

enum stream_state { STREAM_OPENING = 0, STREAM_RUNNING, STREAM_FAILED };

struct parked;
struct park {
    struct parked *first, **last;
    size_t bytes;
    bool has_news; /* a table or a map was loaded since the last look */
};

/* How the copies are used, since the last decision about their size. */
struct copy_use {
    uint64_t walks, cut; /* cut: off the end of a whole copy */
    uint64_t small;      /* walks that half of a copy would do for */
    uint64_t since_ns;
};

/* Time without samples (unseen.c), since the rings were started. */
struct unseen {
    bool has_base;                    /* the sum was known at the start */
    uint64_t base_ns, kernel_base_ns; /* the process's clocks then; 0 = it had not yet run */
    uint64_t sampled_ns;              /* what samples of the process stand for */
    uint64_t counted_ns, kernel_ns;   /* counted as notes; the part in the kernel */
    uint64_t settled_ns;              /* when */
    uint32_t short_threads;           /* that have ended since then */
};

struct host_stream {
    struct host_stream *next; /* of the engine */
    struct engine *engine;
    enum stream_state state;
    bool is_all;     /* every process of the machine */
    bool has_kernel; /* the rings that are open now also have kernel frames */
    bool is_over;    /* no target uses it; freed when its jobs are done */
    uint32_t jobs;
    struct target *targets; /* by host->next */
    uint32_t target_count;
    uint64_t targets_serial;

    struct rings *rings;
    bool is_resizing; /* a builder opens rings with another copy size */
    bool cannot_grow; /* it failed */
    uint32_t stack_bytes;
    uint64_t period_ns, dithered_ns;
    struct rings_counts seen;
    uint64_t drained_ns; /* when the rings were drained last, and up to when */
    uint64_t drained_to_ns;
    uint64_t samples;      /* of all processes, in the present drain */
    uint64_t drain_end_ns; /* thread_cpu_ns at which the present drain must end */
    bool has_more, is_busy;
    struct sonde_diag diag; /* FAILED: why */

    pid_t *watched; /* !is_all, a group: its processes when /proc was read last */
    size_t watched_count;
    bool is_looking;
    uint64_t looked_ns;

    struct process_table processes;
    struct thread_names names;
    struct lock_owners owners;
    struct unwind_walker *walker;
    struct park park;
    struct waits *waits; /* time off the CPU (waits.h); NULL = none was asked for */
    struct copy_use use;
    struct unseen unseen;
    struct counted counted;
    uint64_t losses; /* how often side-band records may have been lost */
};

/* stream.c */
/* Gives the target a stream; its rings may have to be opened first. False when out of memory. */
bool stream_join(struct target *target);
void stream_leave(struct target *target);
void stream_free_if_over(struct host_stream *stream);
/* Sets the shortest of the targets' periods. */
void stream_set_period(struct host_stream *stream);
/* Whether another period needs other rings, which takes so long that a builder opens them. */
bool stream_has_many_events(const struct host_stream *stream);
void stream_reopen(struct host_stream *stream);
/* Renews the dither, and what else is due every second. */
void stream_tick(struct host_stream *stream, uint64_t now_ns);
/* Handles records up to until_ns (0 = all), for at most limit_ns of CPU time. True when there are
 * more. */
bool stream_drain(struct host_stream *stream, uint64_t until_ns, uint64_t limit_ns);
/* Counts what the rings report about themselves. */
void stream_count_rings(struct host_stream *stream);
void stream_count_drop(struct host_stream *stream, int cause, uint64_t count);

/* open.c: jobs. False when out of memory. */
bool rings_open_job(struct host_stream *stream);
bool rings_resize_job(struct host_stream *stream, uint32_t stack_bytes);
/* Any thread: the processes of a target, as far as /proc shows them now. The caller frees the list.
 * NULL and *count 0 when there are none. */
pid_t *host_list_pids(const struct host_target *members, size_t *count);
/* Now and then: adds processes that have joined the group of a stream without rights. */
void rings_look_job(struct host_stream *stream, uint64_t now_ns);
/* Their results. Both take rings. NULL: they could not be opened; stack_bytes may be what it
 * was. */
void stream_opened(struct host_stream *stream, sonde_err err, struct rings *rings,
                   const struct sonde_diag *diag);
void stream_resized(struct host_stream *stream, struct rings *rings, uint32_t stack_bytes);

/* records.c: a host_on_record, with the stream as context. */
void stream_on_record(void *stream, const struct host_record *record);

/* sample.c */
/* Walks a sample, and counts or parks it. */
void sample_add(struct host_stream *stream, struct host_process *process,
                const struct host_record *record);
/* The same for a parked one, with the map that it was taken with. False: it still waits. may_wait
 * false: it is counted as far as it can be walked. */
bool sample_retry(struct host_stream *stream, struct parked *parked, bool may_wait);

/* A stack that was walked elsewhere. */
struct walked_stack {
    const uint64_t *pcs; /* leaf first */
    uint32_t count;
    enum stack_end end;
    int note; /* an enum stack_note instead of a stack; -1 = none */
};
/* Whether the maps of a process are known, or known to be missing; otherwise reads them. */
bool sample_has_map(struct host_stream *stream, struct host_process *process);
/* Counts it with the present maps. The record has no stack. */
void sample_add_walked(struct host_stream *stream, struct host_process *process,
                       const struct host_record *record, const struct walked_stack *stack);

/* park.c */
struct parked {
    struct parked *next;
    struct host_process *process; /* retained */
    struct code_map *map;         /* retained; NULL: waits for the maps of the process */
    struct mapping *waits_for;    /* retained; NULL: for the maps */
    size_t bytes;
    struct host_record record; /* its kernel frames and its stack follow */
};
void park_init(struct park *park);
/* False when there is no room. */
bool park_add(struct park *park, struct host_process *process, struct code_map *map,
              struct mapping *waits_for, const struct host_record *record);
/* Walks again what has what it waited for; until is_over. */
void park_retry(struct host_stream *stream, bool (*is_over)(void *context));
/* Counts everything as far as it can be walked. */
void park_empty(struct host_stream *stream);
bool park_has_before(const struct park *park, uint64_t time_ns);

/* unseen.c */
void unseen_begin(struct host_stream *stream);
/* is_last: a capture begins or ends, and all records have been counted. */
void unseen_settle(struct host_stream *stream, bool is_last);

/* load.c: jobs. */
/* Opens the mapping's file and its table. */
void load_table(struct host_stream *stream, struct host_process *process, struct mapping *mapping);
/* Opens the kernel's names. */
void load_kernel(struct host_stream *stream);
/* Reads /proc/PID/maps. */
void load_maps(struct host_stream *stream, struct host_process *process);
/* A mapping that a record announced, for later if the maps are being read. */
void maps_add(struct host_process *process, uint64_t time_ns, const struct host_mmap *from);

#endif
