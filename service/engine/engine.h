/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: targets, captures, windows. It owns the guests' socket, one thread that drains rings
 * and talks to guests, and a small pool of workers for what takes long (tables, names, rendering).
 *
 * Callers (service/rpc) ask from any thread and never wait: answers are events, called on an engine
 * or worker thread, one at a time per object, and must return quickly (hand the thing to your own
 * loop). Strings and structs passed to an event are valid during the call; a sonde_profile passed
 * with "takes" belongs to the receiver. */
#ifndef SONDE_SERVICE_ENGINE_ENGINE_H
#define SONDE_SERVICE_ENGINE_ENGINE_H

#include "api/draw/draw.h"
#include "api/error.h"
#include "api/profile/profile.h"

#include <sys/types.h>

#define ENGINE_CAPTURES_PER_TARGET 64
#define ENGINE_MAX_ADDRESSES       65536
#define ENGINE_DROP_CAUSES         8

struct engine;
struct symbol_store;

struct engine_options {
    const char
        *socket_path;     /* where guests connect: unix path, or "@name" for the abstract space */
    const char *data_dir; /* unwind and symbol caches; made 0700 when missing */
    uint32_t workers;     /* 0 = 2 */
    /* The program to run as a symbol worker (service/symbol/worker/worker.h); NULL = names only. */
    const char *symbol_worker;
    /* debuginfod servers, separated by blanks (service/symbol/debuginfod); NULL or "" = none. */
    const char *debuginfod;
    uint64_t upload_bytes; /* bound of all uploaded debug files; 0 = 16 GiB */
    /* Guests of every user may connect: the socket's mode is 0666, its directory can be entered.
     * Each of them still says who it is by the kernel's word, and may have so many targets. */
    bool serves_everybody;
};

/* Binds the socket and starts the threads. SONDE_IO, SONDE_NOT_AVAILABLE (another sonded serves
 * this socket). */
SONDE_MUST_USE sonde_err engine_create(const struct engine_options *options, struct engine **engine,
                                       struct sonde_diag *diag);
/* Ends every capture (their on_end comes with SONDE_UNAVAILABLE), says goodbye to guests, joins the
 * threads. */
void engine_destroy(struct engine *engine);

/* Which process; empty fields say nothing. All given ones must fit. */
struct engine_selector {
    const char *name; /* "" or NULL */
    pid_t pid;        /* 0 */
    const char *uuid; /* hex */
};

struct engine_target {
    char name[64], uuid[33], executable[64], clock[24], clock_note[192], guest_version[32];
    pid_t pid;
    int64_t start_unix_ns, attached_unix_ns;
    uint32_t captures_running, threads;
};

struct engine_drop {
    const char *cause; /* static: "ring_full" ... */
    uint64_t count;
};

struct engine_counters {
    uint32_t targets, captures_running, streams_running;
    uint64_t captures_total, samples_total;
    struct engine_drop drops[ENGINE_DROP_CAUSES];
    size_t drop_count;
};

void engine_counters(struct engine *engine,
                     struct engine_counters *counters); /* short lock, no waiting */
/* A copy of the list, to be freed with free; NULL and *count 0 when empty. */
struct engine_target *engine_targets(struct engine *engine, size_t *count);
/* The one target that fits: SONDE_TARGET_AMBIGUOUS (diag lists them), _NOT_FOUND, _CONFLICT. */
SONDE_MUST_USE sonde_err engine_find(struct engine *engine, const struct engine_selector *selector,
                                     struct engine_target *target, struct sonde_diag *diag);
/* argv of the target, NUL-separated, no final NUL; appended to out. */
SONDE_MUST_USE sonde_err engine_command_line(struct engine *engine,
                                             const struct engine_selector *selector,
                                             struct sonde_buf *out, struct sonde_diag *diag);

/* Watching targets. on_event: attached (true) or gone (false). After engine_unwatch returns no
 * event comes any more. First one event per attached target, then one with target == NULL:
 * "synced", then changes. */
struct engine_watch;
typedef void engine_on_target(void *context, bool attached, const struct engine_target *target);
SONDE_MUST_USE sonde_err engine_watch(struct engine *engine, engine_on_target *on_event,
                                      void *context, struct engine_watch **watch);
void engine_unwatch(struct engine *engine, struct engine_watch *watch);

/* What a capture's samples stand for. WALL: CPU time and the time threads are blocked or wait for a
 * CPU; OFF_CPU: only the latter. */
enum engine_mode { ENGINE_CPU = 0, ENGINE_WALL, ENGINE_OFF_CPU, ENGINE_MODES };

struct engine_cpu_spec {
    struct engine_selector target;
    uint32_t frequency_hz; /* 1..10000 */
    uint32_t duration_ms;  /* 0 = until engine_capture_finish */
    uint32_t window_ms;    /* 0 = one sum at the end; otherwise a window each */
    uint64_t max_samples;  /* 0 = no bound */
    uint32_t progress_ms;  /* 0 = no progress events */
    bool no_symbols;       /* leave names out (raw addresses and mappings only) */
    /* On the monotonic clock: whoever wants the result is gone then, so that it does not wait for
     * inlined functions and lines. 0 = patient. */
    uint64_t result_by_ns;
    enum engine_mode mode;
    /* Ceiling of the sampler's own CPU time, as a share of the CPU time the target uses; 0 = none.
     * The rate is lowered to keep it; of several captures of a target the lowest counts. */
    double max_overhead;
};

struct engine_progress {
    uint32_t elapsed_ms, duration_ms;
    uint64_t samples, dropped;
    const char *hottest; /* "" = none yet */
    double hottest_share;
};

/* What a window, or the whole capture, was. */
struct engine_metadata {
    uint64_t sequence; /* windows count from 0 */
    int64_t start_unix_ns, end_unix_ns;
    uint64_t period_ns;
    uint64_t samples, dropped, truncated;
    struct engine_drop drops[ENGINE_DROP_CAUSES];
    size_t drop_count;
    uint64_t guest_cpu_ns, target_cpu_ns; /* target: without the guest's control thread */
    const char *clock;                    /* valid during the call */
    bool target_gone;
    enum engine_mode mode;
    double frequency_hz;     /* mean rate of ticks, when a ceiling lowered it below the asked one */
    const char *budget_note; /* how the ceiling was kept; "" = there was none */
};

struct engine_capture;

struct engine_capture_events {
    void (*on_progress)(void *context, const struct engine_progress *progress); /* may be NULL */
    /* With window_ms: each window, symbolized. Otherwise once, with the whole, right before
     * on_end(SONDE_OK). Takes profile. Sample types samples/count and, by mode, cpu, wall or
     * off_cpu/nanoseconds; labels "thread", "tid" and those of sonde.h; comments. */
    void (*on_profile)(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata);
    /* Always, exactly once, the last event. SONDE_OK, SONDE_CANCELLED, SONDE_TARGET_GONE (a target
     * that ended in mid-capture still gets on_profile with what there was, facts->target_gone, and
     * then SONDE_OK), SONDE_NO_CLOCK ... */
    void (*on_end)(void *context, sonde_err err, const struct sonde_diag *diag);
};

/* Refusals come back at once and no event follows: TARGET_*, TOO_MANY_CAPTURES, INVALID_ARGUMENT.
 * On SONDE_OK *capture is valid until engine_capture_release; events may start before this call
 * returns. */
SONDE_MUST_USE sonde_err engine_capture_cpu(struct engine *engine,
                                            const struct engine_cpu_spec *spec,
                                            const struct engine_capture_events *events,
                                            void *context, struct engine_capture **capture,
                                            struct sonde_diag *diag);
void engine_capture_finish(struct engine_capture *capture); /* end now, with the result */
void engine_capture_cancel(
    struct engine_capture *capture); /* end now, without; on_end(SONDE_CANCELLED) comes */
/* Gives the handle up; does not end the capture. Call it once, at or after on_end at the latest;
 * after engine_destroy it is fine too. */
void engine_capture_release(struct engine_capture *capture);

/* Sessions: StartCpu/StopCpu. One per target; its result is kept until the next start or until the
 * target goes. */
struct engine_session_info {
    int64_t start_unix_ns, lease_until_unix_ns;
    char owner[65];
};
SONDE_MUST_USE sonde_err engine_session_start(struct engine *engine,
                                              const struct engine_cpu_spec *spec, uint32_t lease_ms,
                                              const char *owner, struct engine_session_info *info,
                                              struct sonde_diag *diag);
/* on_profile takes the profile (an empty one when no session ever ran), then on_end. */
SONDE_MUST_USE sonde_err engine_session_stop(struct engine *engine,
                                             const struct engine_selector *selector,
                                             const struct engine_capture_events *events,
                                             void *context, struct sonde_diag *diag);

/* The allocations made during a window, those freed meanwhile included, as estimates that need no
 * further scaling: sample types alloc_objects/count and alloc_space/bytes. Comments say which
 * sampler took them (ours in the place of malloc, or jemalloc's own) and how densely. */
#define ENGINE_ALLOCS_SAMPLE   (512u << 10)
#define ENGINE_ALLOCS_MAX      (1u << 30)
#define ENGINE_ALLOCS_EVERY_MS 60000u /* every allocation is taken for at most so long */

struct engine_allocs_spec {
    struct engine_selector target;
    uint32_t duration_ms;  /* 1..3600000, 0 = until engine_capture_finish */
    uint64_t sample_bytes; /* mean bytes between samples, 1..1 GiB; 0 = 512 KiB; 1 = every one */
    double probability;    /* instead of it: of each allocation, 0 < p <= 1; 0 = not asked */
    uint32_t progress_ms;  /* 0 = no progress events */
};

/* Events and handle are those of engine_capture_cpu; engine_metadata has period_ns 0 and clock "".
 * The window begins when the target's sampler runs, not with the call. Refusals at once: TARGET_*,
 * INVALID_ARGUMENT. By on_end: NOT_AVAILABLE, with the setting that makes it possible. */
SONDE_MUST_USE sonde_err engine_capture_allocs(struct engine *engine,
                                               const struct engine_allocs_spec *spec,
                                               const struct engine_capture_events *events,
                                               void *context, struct engine_capture **capture,
                                               struct sonde_diag *diag);

/* StartAllocs/StopAllocs, as engine_session_*: one per target (SESSION_BUSY), ended by its lease
 * (0 = 10 min; at most ENGINE_ALLOCS_EVERY_MS when every allocation is taken), the last result is
 * kept. spec->duration_ms and progress_ms are not used. */
SONDE_MUST_USE sonde_err engine_allocs_start(struct engine *engine,
                                             const struct engine_allocs_spec *spec,
                                             uint32_t lease_ms, const char *owner,
                                             struct engine_session_info *info,
                                             struct sonde_diag *diag);
SONDE_MUST_USE sonde_err engine_allocs_stop(struct engine *engine,
                                            const struct engine_selector *selector,
                                            const struct engine_capture_events *events,
                                            void *context, struct sonde_diag *diag);

/* Names for runtime addresses of a target. on_answer once, on a worker; err != OK: answers NULL. */
struct engine_symbol {
    const struct symbol_frame *frames; /* service/symbol/symbol.h */
    uint32_t frame_count;
    int quality;                   /* enum symbol_quality */
    const char *module, *build_id; /* "" = none */
    uint64_t module_offset;
    const char *reason; /* why quality is not full; "" = it is, or there is no module */
    bool is_improving;  /* a better answer is on the way */
    bool is_folded;     /* several functions share this code */
    enum sonde_frame_kind kind;
};
typedef void engine_on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                               const struct engine_symbol *symbols, size_t count);
SONDE_MUST_USE sonde_err engine_symbolize(struct engine *engine,
                                          const struct engine_selector *selector,
                                          const uint64_t *addresses, size_t count,
                                          bool return_addresses, engine_on_symbols *on_answer,
                                          void *context, struct sonde_diag *diag);

/* The same for addresses without a target: of one file, or of mappings as a profile has them. An
 * unknown build-id of a mapping leaves its addresses unknown; that of the file is SONDE_NOT_FOUND,
 * which comes with the answer. Everything is copied. */
struct engine_symbol_mapping {
    uint64_t start, end, offset;
    const char *build_id;
};
struct engine_symbol_source {
    const char *build_id; /* NULL or "": mappings */
    const struct engine_symbol_mapping *mappings;
    size_t mapping_count;
};
SONDE_MUST_USE sonde_err engine_symbolize_files(struct engine *engine,
                                                const struct engine_symbol_source *source,
                                                const uint64_t *addresses, size_t count,
                                                bool return_addresses, engine_on_symbols *on_answer,
                                                void *context, struct sonde_diag *diag);

/* The operations of service/symbol/files/files.h on the engine's store. They block: call them on a
 * worker. */
struct symbol_file;
struct symbol_evicted;
struct symbol_upload;
SONDE_MUST_USE sonde_err engine_symbol_files(struct engine *engine, struct symbol_file **files,
                                             size_t *count, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err engine_symbol_evict(struct engine *engine, const char *id, bool uploads,
                                             struct symbol_evicted *evicted,
                                             struct sonde_diag *diag);
SONDE_MUST_USE sonde_err engine_upload_begin(struct engine *engine, uint64_t size,
                                             struct symbol_upload **upload,
                                             struct sonde_diag *diag);
SONDE_MUST_USE sonde_err engine_upload_write(struct symbol_upload *upload, const void *bytes,
                                             size_t len, struct sonde_diag *diag);
uint64_t engine_upload_missing(const struct symbol_upload *upload);
/* Frees upload. */
SONDE_MUST_USE sonde_err engine_upload_finish(struct symbol_upload *upload,
                                              struct symbol_file *file, struct sonde_diag *diag);
void engine_upload_abandon(struct symbol_upload *upload); /* NULL is fine */

/* Runs `run(work)` on a worker: for service/rpc's rendering. False when the queue is full (1024) or
 * the engine is ending. */
struct engine_work {
    void (*run)(struct engine_work *work);
    struct engine_work *next;
};
bool engine_submit(struct engine *engine, struct engine_work *work);

#endif
