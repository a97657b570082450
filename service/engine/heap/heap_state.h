/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap state of one target, on the engine thread.
 *
 *     request ──▶ call ──HeapCommand──▶ guest ──HeapAnswer──▶ state, answer
 *                                                 └─ memfd ──▶ worker: a profile, or a dump file
 *
 * The guest answers commands in order and refuses the second of two competing activations, so
 * nothing here is locked and nothing waits. What the guest does not know (owner, epoch, lease,
 * interval, dumps) is in `struct heap`, and in a file beside the dumps for the next sonded. Thread
 * safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_HEAP_HEAP_STATE_H
#define SONDE_SERVICE_ENGINE_HEAP_HEAP_STATE_H

#include "proto/sonde/v1/guest.pb.h"
#include "service/engine/core/target.h"
#include "service/engine/heap/dumps.h"
#include "service/engine/heap/heap.h"
#include "service/engine/memory_report/alloc_table_view.h"

#define HEAP_ANSWER_NS  30000000000ull
#define HEAP_GDUMP_NS   500000000ull
#define HEAP_MAX_CALLS  256u
#define HEAP_KEEP_BYTES (1ull << 30)
#define HEAP_MAX_DUMP   (1ull << 30) /* as text in memory */

/* A command that the guest has received or will receive. */
struct heap_call {
    struct heap_call *next;
    struct message message;
    struct target *target; /* retained */
    sonde_guest_v1_HeapVerb verb;
    uint32_t sequence;
    uint64_t deadline_ns;
    struct engine_heap_request request; /* its strings are below */
    char owner[65];
    void (*done)(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer, int fd);
    engine_on_heap *on_answer;
    engine_on_heap_result *on_result;
    void *context;
    bool is_searched; /* sent with the result of the symbol search */
    bool raw, require_active, keep_frames;
    uint64_t older_than_ms;
    uint64_t sample_bytes; /* ALLOCS, like the next */
    double probability;
    uint64_t epoch;                        /* time of the request, then of the dump */
    char name[ENGINE_HEAP_NAME_BYTES + 1]; /* of a periodic dump; "" = now */
};

struct heap {
    struct target *target;
    struct engine_heap_state state; /* as last reported */
    struct heap_call *calls, **last;
    struct heap_call *unsearched; /* calls that wait for the symbol search */
    uint32_t call_count, sequence;
    struct heap_dumps dumps;
    uint64_t keep_bytes;
    uint64_t next_dump_ns, lease_ns; /* monotonic; 0 = never */
    uint64_t gdump_ns;               /* when the last one arrived */
    bool was_interposed;             /* Sonde's sampler has had samples before */
    bool is_dumping;                 /* a periodic dump is being taken */
    bool is_searched;         /* whether the program's symbol table was searched for mallctl */
    uint64_t mallctl;         /* its address; 0 = not found */
    const char *mallctl_name; /* static text; NULL = none */
    bool is_stripped;         /* the program contains a jemalloc, but not its symbols */
    struct alloc_view *table; /* of Sonde's sampler, while it exists */
    struct alloc_base *base;  /* its totals when heap profiling began */
    uint64_t dropped_before;
    uint32_t incarnation; /* changes with a new process: a dump requested before that is not kept */
};

/* guest_commands.c. Creates the state if there is none; NULL when out of memory. */
struct heap *heap_of(struct target *target);
void heap_destroy(struct heap *heap); /* NULL is allowed */
/* Creates a call to the one target that matches. Any thread. */
SONDE_MUST_USE sonde_err heap_call_create(struct engine *engine,
                                          const struct engine_selector *selector,
                                          struct heap_call **call, struct sonde_diag *diag);
/* Sends the call. Its `done` is called once, with a NULL answer if the guest does not reply. */
void heap_send(struct heap *heap, struct heap_call *call);
void heap_call_free(struct heap_call *call);
/* Takes fd (-1 = none). SONDE_PROTOCOL if no command is waiting for an answer. */
SONDE_MUST_USE sonde_err heap_on_answer(struct target *target,
                                        const sonde_guest_v1_HeapAnswer *answer, int fd);
/* The guest has disconnected. */
void heap_detach(struct target *target);
/* Handles deadlines; returns the time of the next one, 0 = none. */
uint64_t heap_tick(struct target *target, uint64_t now_ns);
/* The error of a command, or SONDE_OK. */
SONDE_MUST_USE sonde_err heap_check_answer(const struct heap *heap,
                                           const sonde_guest_v1_HeapAnswer *answer,
                                           struct sonde_diag *diag);

/* heap_requests.c */
/* Updates the state from the guest's answer. */
void heap_update(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer);
void heap_answer(struct heap_call *call, sonde_err err, const struct sonde_diag *diag);

/* periodic_dumps.c */
/* The directory of the target's dumps; no other process has the same one. The caller frees it; NULL
 * = there is no data directory. */
char *heap_directory(const struct target *target);
void heap_save_state(const struct heap *heap);
/* A guest has attached: continues what an earlier sonded had started with it. */
void heap_attach(struct target *target);
/* Applies the limits of dump_retention.h on a worker. */
void heap_start_sweep(struct engine *engine);
void heap_begin_activity(struct heap *heap, const struct heap_call *call);
void heap_end_activity(struct heap *heap, bool delete_dumps);
/* The guest has caught a dump at a new maximum (gdump). One per HEAP_GDUMP_NS is kept among the
 * periodic dumps. skipped: the number the guest dropped since the last one. Takes fd. */
void heap_on_gdump(struct target *target, uint64_t skipped, int fd);
/* Returns the time of the next deadline, 0 = none. */
uint64_t heap_periodic_tick(struct heap *heap, uint64_t now_ns);

/* sampler_heap.c: Sonde's sampler. */
/* Uses the table that came with an answer, or releases the old one; fd is borrowed, -1 = none. */
void heap_update_table(struct heap *heap, const sonde_guest_v1_HeapAnswer *answer, int fd);
/* Starts counting totals from now. */
void heap_begin_totals(struct heap *heap);
void heap_forget_totals(struct heap *heap);
/* A job that reads the table: create it, run it as engine_start_job requires, finish it. */
struct table_reading {
    struct alloc_view *view; /* retained, like base */
    struct alloc_base *base;
    const struct mapping_lives *lives;      /* retained */
    const struct process_identity *process; /* of the target */
    uint64_t mean, older_than_ms;
    bool keep_frames;
    char comment[224];
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

/* get_dump.c */
/* Reads jemalloc's text from fd (borrowed), as text (raw) or as a profile. process: whose files it
 * names. is_saved: by sonded, so the dump is settled (dump_places.h). Worker. */
SONDE_MUST_USE sonde_err heap_read_dump(struct engine *engine, int fd,
                                        const struct process_identity *process,
                                        const struct mapping_lives *lives, bool is_saved, bool raw,
                                        bool keep_frames, struct engine_heap_result *result,
                                        struct sonde_diag *diag);
/* Answers the call with the dump in fd and frees the call. Takes fd; -1 = use the table of Sonde's
 * sampler. */
void heap_deliver(struct heap_call *call, int fd);

/* ended_dumps.c: a query with `ended`. */
SONDE_MUST_USE sonde_err heap_get_ended(struct engine *engine,
                                        const struct engine_heap_query *query,
                                        engine_on_heap_result *on_result, void *context,
                                        struct sonde_diag *diag);

#endif
