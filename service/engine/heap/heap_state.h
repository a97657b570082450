/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap state of one target, on the engine thread.
 *
 *     request ──▶ call ──HeapCommand──▶ guest ──HeapAnswer──▶ state, answer
 *                                                 └─ memfd ──▶ worker: a profile, or a kept file
 *
 * The guest answers in the order it was asked, and two activations that cross are told apart by the
 * guest: so nothing is locked and nothing waits. Everything that is not the guest's word (owner,
 * epoch, lease, interval, dumps) lies in `struct heap`, and on disk beside the dumps, for the next
 * sonded. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_HEAP_STATE_H
#define SONDE_SERVICE_ENGINE_HEAP_HEAP_STATE_H

#include "service/engine/allocs/alloc_table_view.h"
#include "service/engine/heap/dumps.h"
#include "service/engine/heap/heap.h"
#include "service/engine/target.h"

#define HEAP_ANSWER_NS  30000000000ull
#define HEAP_GDUMP_NS   500000000ull
#define HEAP_MAX_CALLS  256u
#define HEAP_KEEP_DUMPS 100u
#define HEAP_KEEP_BYTES (1ull << 30)
#define HEAP_MAX_DUMP   (1ull << 30) /* as text in memory */

/* Something the guest was asked, or is to be. */
struct heap_call {
    struct heap_call *next;
    struct message message;
    struct target *target; /* retained */
    sonde_guest_v1_HeapVerb verb;
    uint32_t sequence;
    uint64_t deadline_ns;
    struct engine_heap_request request; /* its strings: below */
    char owner[65];
    void (*done)(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd);
    engine_on_heap *on_answer;
    engine_on_heap_result *on_result;
    void *context;
    bool is_searched; /* it was sent with what the search of the program's symbols knew */
    bool raw, require_active;
    uint64_t older_than_ms;
    uint64_t sample_bytes; /* ALLOCS, with the next */
    double probability;
    uint64_t epoch;                        /* when it was asked; of the dump, once it is there */
    char name[ENGINE_HEAP_NAME_BYTES + 1]; /* of a kept dump; "" = now */
};

struct heap {
    struct target *target;
    struct engine_heap_state state; /* as last known */
    struct heap_call *calls, **last;
    struct heap_call *unsearched; /* those that wait for the search */
    uint32_t call_count, sequence;
    struct heap_dumps dumps;
    uint32_t keep_dumps;
    uint64_t keep_bytes;
    uint64_t next_dump_ns, lease_ns; /* monotonic; 0 = never */
    uint64_t gdump_ns;               /* when the last one came */
    bool was_interposed;             /* our own sampler has had samples before */
    bool is_dumping;                 /* a periodic dump is on its way */
    bool is_searched;                /* the program's symbol table, for mallctl */
    uint64_t mallctl;                /* found there; 0 = not */
    const char *mallctl_name;        /* static text; NULL = none */
    struct alloc_view *table;        /* of our own sampler, while it is there */
    struct alloc_base *base;         /* what its totals were when heap profiling began */
    uint64_t dropped_before;
    uint32_t life; /* of the kept dumps: one that was asked for in an earlier life is not kept */
};

/* heap.c. Makes the state when there is none yet; NULL when out of memory. */
struct heap *heap_of(struct target *target);
void heap_destroy(struct heap *heap); /* NULL is fine */
/* Any thread. A call to the one target that fits. */
SONDE_MUST_USE sonde_err heap_call_create(struct engine *engine,
                                          const struct engine_selector *selector,
                                          struct heap_call **call, struct sonde_diag *diag);
/* Sends the call. Its done comes once, answer NULL when the guest gives none. */
void heap_ask(struct heap *heap, struct heap_call *call);
void heap_call_free(struct heap_call *call);
/* Takes fd (-1 = none). SONDE_PROTOCOL for an answer nobody asked for. */
SONDE_MUST_USE sonde_err heap_on_answer(struct target *target,
                                        const sonde_guest_v1_HeapAnswer *answer, int fd);
/* The connection is over. */
void heap_detach(struct target *target);
/* Deadlines; returns when to look again, 0 = never. */
uint64_t heap_tick(struct target *target, uint64_t now_ns);
/* What went wrong with a command: SONDE_OK when nothing did. */
SONDE_MUST_USE sonde_err heap_judge(const struct heap *heap,
                                    const sonde_guest_v1_HeapAnswer *answer,
                                    struct sonde_diag *diag);

/* heap_state.c */
/* Takes over what the guest says. */
void heap_note(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer);
void heap_answer(struct heap_call *call, sonde_err err, const struct sonde_diag *diag);

/* heap_periodic.c */
/* Where the target's dumps are kept: its process alone has that name. The caller's to free; NULL =
 * nowhere. */
char *heap_directory(const struct target *target);
void heap_remember(const struct heap *heap);
/* A guest has come: goes on with what an earlier sonded had begun with it. */
void heap_attach(struct target *target);
/* Looks on a worker for what dumps of ended processes is to go (heap_sweep.h). */
void heap_start_sweep(struct engine *engine);
void heap_begin_activity(struct heap *heap, const struct heap_call *call);
void heap_end_activity(struct heap *heap, bool delete_dumps);
/* The guest has caught a dump at a new maximum: kept among the periodic ones, one every
 * HEAP_GDUMP_NS. skipped: others since the last one told, which the guest dropped. Takes fd. */
void heap_on_gdump(struct target *target, uint64_t skipped, int fd);
/* Returns when to look again, 0 = never. */
uint64_t heap_periodic_tick(struct heap *heap, uint64_t now_ns);

/* heap_table.c: our own sampler. */
/* Takes over the table that came with an answer, or lets it go; fd is borrowed, -1 = none came. */
void heap_note_table(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer, int fd);
/* Totals count from now on. */
void heap_begin_totals(struct heap *heap);
void heap_forget_totals(struct heap *heap);
/* A job that reads the table: create, start by engine_start_job's rules, finish. */
struct table_reading {
    struct alloc_view *view; /* retained, as base */
    struct alloc_base *base;
    pid_t pid;
    uint64_t mean, older_than_ms;
    char comment[160];
};
void table_reading_init(struct table_reading *reading, const struct heap *heap);
void table_reading_finish(struct table_reading *reading);
/* Worker. */
SONDE_MUST_USE sonde_err table_read_profile(struct engine *engine,
                                            const struct table_reading *reading,
                                            struct sonde_profile **profile,
                                            struct sonde_diag *diag);
SONDE_MUST_USE sonde_err table_read_text(const struct table_reading *reading,
                                         struct sonde_buf *text, struct sonde_diag *diag);

/* heap_get.c */
/* Worker. jemalloc's text in fd (borrowed), as it is or as a profile; pid: whose files it names. */
SONDE_MUST_USE sonde_err heap_read_dump(struct engine *engine, int fd, pid_t pid, bool raw,
                                        struct engine_heap_result *result, struct sonde_diag *diag);
/* Does with the dump in fd, which it takes, what the call asked; frees the call. -1: with our own
 * sampler's table. */
void heap_deliver(struct heap_call *call, int fd);

/* heap_ended.c: a query with `ended`. */
SONDE_MUST_USE sonde_err heap_get_ended(struct engine *engine,
                                        const struct engine_heap_query *query,
                                        engine_on_heap_result *on_result, void *context,
                                        struct sonde_diag *diag);

#endif
