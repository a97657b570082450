/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: targets, captures and windows. It owns the guests' socket, a thread that drains rings
 * and talks to guests, and two small pools of workers for what takes long (tables, names,
 * rendering).
 *
 * Its callers (service/rpc) may call from any thread, and no call waits. Answers are events: they
 * run on the engine thread or on a worker, one at a time per object, and must return quickly, for
 * example after a post to the caller's loop. Strings and structs passed to an event are valid
 * during the call. An event that "takes" a profile owns it. */
#ifndef SONDE_SERVICE_ENGINE_ENGINE_H
#define SONDE_SERVICE_ENGINE_ENGINE_H

#include "api/draw/draw.h"
#include "api/error.h"
#include "api/profile/event.h"
#include "api/profile/profile.h"
#include "api/program_advice.h"

#include <sys/types.h>

#define ENGINE_CAPTURES_PER_TARGET 64
#define ENGINE_MAX_ADDRESSES       65536
#define ENGINE_DROP_CAUSES         12
#define ENGINE_LABELS_BYTES        1024 /* of SONDE_LABELS */

struct engine;
struct sampler;
struct symbol_store;

/* Where samples come from. AUTOMATIC: the cheapest that can answer. */
enum engine_source { ENGINE_AUTOMATIC = 0, ENGINE_HOST, ENGINE_GUEST, ENGINE_SOURCES };

struct engine_options {
    const char *socket_path; /* where guests connect: a path, or "@name" for an abstract socket */
    const char *data_dir;    /* unwind and symbol caches; created with mode 0700 when missing */
    uint32_t workers;        /* 0 = 2 */
    /* The program to run as a symbol worker (service/symbol/worker/worker.h); NULL = names only. */
    const char *symbol_worker;
    /* debuginfod servers, separated by blanks (service/symbol/debuginfod); NULL or "" = none. */
    const char *debuginfod;
    uint64_t upload_bytes; /* limit for all uploaded debug files together; 0 = 16 GiB */
    uint32_t heap_dumps;   /* periodic heap dumps to keep per target; 0 = 100 */
    /* Guests of every user may connect: the socket gets mode 0666, and its directory mode bits x.
     * The kernel still says which user a guest belongs to, and the number of targets of a user is
     * limited. */
    bool serves_everybody;
    /* Opens what needs capabilities (service/host/sampler); it must outlive the engine. NULL = what
     * this process may open itself is all. */
    struct sampler *sampler;
    /* What ENGINE_AUTOMATIC means for attached processes: ENGINE_AUTOMATIC, or always this. Others
     * are sampled from outside. */
    enum engine_source source;
};

/* Binds the socket and starts the threads. SONDE_IO, SONDE_NOT_AVAILABLE (another sonded serves
 * this socket). */
SONDE_MUST_USE sonde_err engine_create(const struct engine_options *options, struct engine **engine,
                                       struct sonde_diag *diag);
/* Ends all captures (on_end with SONDE_UNAVAILABLE), disconnects the guests and joins the
 * threads. */
void engine_destroy(struct engine *engine);

/* Selects a process: it must match every field that is not empty. */
struct engine_selector {
    const char *name;   /* "" or NULL */
    pid_t pid;          /* 0 */
    const char *uuid;   /* hex */
    const uid_t *owner; /* only processes of this user; NULL = of all users */
    /* Several processes as one target: those of that name, or pid and all that it starts, or every
     * process of the machine. For CPU captures only. */
    bool all;
    /* Every process of sonded's own user instead, which takes fewer rights than the machine. */
    bool own;
};

struct engine_target {
    char name[64], uuid[33], executable[64], clock[24], clock_note[192], guest_version[32];
    char labels[ENGINE_LABELS_BYTES]; /* SONDE_LABELS, as the target has it; check before use */
    pid_t pid;
    uid_t uid;
    int64_t start_unix_ns; /* the same each time the process attaches */
    int64_t attached_unix_ns;
    uint32_t captures_running, threads;
    bool is_unattached;    /* has no guest: sampled from outside */
    char container[65];    /* id, from its cgroup; "" = none */
    uint64_t cpu_ns;       /* used since its start; 0 = unknown */
    char unavailable[192]; /* why it cannot be sampled; "" = it can */
};

struct engine_drop {
    const char *cause; /* static text, for example "ring_full" */
    uint64_t count;
};

struct engine_counters {
    uint32_t targets, captures_running, streams_running;
    uint64_t captures_total, samples_total;
    struct engine_drop drops[ENGINE_DROP_CAUSES];
    size_t drop_count;
};

/* Holds a lock for a moment, never waits. */
void engine_counters(struct engine *engine, struct engine_counters *counters);
/* A copy of the list, which the caller frees; NULL and *count 0 when it is empty. */
struct engine_target *engine_targets(struct engine *engine, size_t *count);
/* The attached processes and all others that this process can see, except kernel threads, by CPU
 * time. Blocks for about 20 us per process: call it on a worker. The caller frees it. */
struct engine_target *engine_processes(struct engine *engine, size_t *count);
/* Says why functions of a process have no names, and what would name them; "" if they have, or if
 * the process cannot be read. Files of processes without a guest are not examined, because there
 * are many. Reads files: call it on a worker. */
void engine_name_advice(struct engine *engine, const struct engine_target *target,
                        char text[PROGRAM_ADVICE]);
/* What this engine may sample from outside: RIGHT_KINDS rows (service/host/rights.h), each tried
 * now. Blocks for some milliseconds: call it on a worker. */
struct host_right;
void engine_rights(struct engine *engine, struct host_right *rights);
/* Which counted events this engine can sample: HOST_COUNTERS rows (service/host/counters.h), each
 * tried now. Blocks for some milliseconds: call it on a worker. */
struct host_counter;
void engine_counters_of_machine(struct engine *engine, struct host_counter *counters);
/* The one target that matches. SONDE_TARGET_AMBIGUOUS (diag lists the matches), _NOT_FOUND,
 * _CONFLICT (each field matches some target, but not the same one). */
SONDE_MUST_USE sonde_err engine_find(struct engine *engine, const struct engine_selector *selector,
                                     struct engine_target *target, struct sonde_diag *diag);
/* Appends argv of the target to out, separated by NULs, without a final NUL. */
SONDE_MUST_USE sonde_err engine_command_line(struct engine *engine,
                                             const struct engine_selector *selector,
                                             struct sonde_buf *out, struct sonde_diag *diag);

/* Watches the list of targets: one event per attached target, one with target NULL ("synced"), then
 * one per change (attached or gone). When engine_unwatch has returned, no further event runs. */
struct engine_watch;
typedef void engine_on_target(void *context, bool attached, const struct engine_target *target);
SONDE_MUST_USE sonde_err engine_watch(struct engine *engine, engine_on_target *on_event,
                                      void *context, struct engine_watch **watch);
void engine_unwatch(struct engine *engine, struct engine_watch *watch);

struct engine_cpu_spec {
    struct engine_selector target;
    uint32_t frequency_hz; /* 1..10000 */
    uint32_t duration_ms;  /* 0 = until engine_capture_finish */
    uint32_t window_ms;    /* 0 = one profile at the end; otherwise one per window */
    uint64_t max_samples;  /* 0 = no limit */
    uint32_t progress_ms;  /* 0 = no progress events */
    bool no_symbols;       /* addresses and mappings only, no names */
    /* On the monotonic clock: when the client will have given up. The report then waits less for
     * inlined functions and lines. 0 = no deadline. */
    uint64_t result_by_ns;
    /* A mode. WALL: CPU time, plus the time that threads are blocked or wait for a CPU; OFF_CPU:
     * only the latter. Or a counted event, which is always sampled from outside. */
    enum sonde_event_id event;
    /* Counted events: a sample for every so many, up to 2^40; 0 = so many that frequency_hz samples
     * are taken in a second. */
    uint64_t every;
    bool counts_waits; /* OFF_CPU: the first sample type is contentions: how often threads waited */
    bool has_locks; /* WALL, OFF_CPU: labels "lock" and "lock_owner"; always sampled from outside */
    bool has_timeline; /* the profile gets a timeline (api/profile/timeline.h); without window_ms */
    /* Maximum CPU time of the sampler, as a share of the CPU time that the target uses; 0 = no
     * limit. The rate is lowered to stay below it. If several captures of a target set it, the
     * lowest applies. */
    double max_overhead;
    /* Continuous recording (record/record.h): takes no place among the target's captures and is not
     * counted as one. max_overhead is a limit of its own, which does not slow other captures.
     * Windows end when Unix time is a multiple of window_ms. */
    bool is_recording;
    enum engine_source source;
};

struct engine_progress {
    uint32_t elapsed_ms, duration_ms;
    uint64_t samples, dropped;
    const char *hottest; /* "" = none yet */
    double hottest_share;
};

/* Describes a window or a whole capture. */
struct engine_metadata {
    uint64_t sequence; /* windows count from 0 */
    int64_t start_unix_ns, end_unix_ns;
    uint64_t period_ns; /* of counted events: the events that a value of 1 stands for */
    uint64_t samples, dropped, truncated;
    struct engine_drop drops[ENGINE_DROP_CAUSES];
    size_t drop_count;
    uint64_t guest_cpu_ns, target_cpu_ns; /* the latter without the guest's control thread */
    char clock[24], clock_note[320];      /* of the target and the capture */
    bool target_gone;
    bool target_execed; /* target_gone, but the process runs on with another program */
    enum sonde_event_id event;
    double frequency_hz;   /* mean rate of the capture so far; max_overhead may have lowered it */
    char budget_note[192]; /* the effect of max_overhead; "" = none */
    char target_name[64];  /* CPU captures; "" otherwise */
    pid_t pid;             /* 0 = several processes */
};

struct engine_capture;

struct engine_capture_events {
    void (*on_progress)(void *context, const struct engine_progress *progress); /* may be NULL */
    /* With window_ms, once per window; otherwise once, right before on_end(SONDE_OK). Takes
     * profile. Sample types: samples/count and the amount of the spec's event. Labels: "thread",
     * "tid" and those of sonde.h. */
    void (*on_profile)(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata);
    /* The last event, exactly once for every capture. SONDE_OK, SONDE_CANCELLED, SONDE_NO_CLOCK,
     * SONDE_TARGET_GONE (before sampling began; if the target ends later, on_profile gets what was
     * sampled, with metadata->target_gone, and then SONDE_OK follows) ... */
    void (*on_end)(void *context, sonde_err err, const struct sonde_diag *diag);
    /* Allocation windows: sampling has begun. May be NULL. */
    void (*on_begin)(void *context);
};

/* Refusals are returned at once, without an event: TARGET_*, TOO_MANY_CAPTURES, INVALID_ARGUMENT.
 * With SONDE_OK, *capture is valid until engine_capture_release, and events may start before the
 * call returns. */
SONDE_MUST_USE sonde_err engine_capture_cpu(struct engine *engine,
                                            const struct engine_cpu_spec *spec,
                                            const struct engine_capture_events *events,
                                            void *context, struct engine_capture **capture,
                                            struct sonde_diag *diag);
/* Ends the capture now, with a result. */
void engine_capture_finish(struct engine_capture *capture);
/* Of a recording: ends the open window if it is ENGINE_CUT_NS old, and opens one for the rest of
 * its time. Nothing is lost or counted twice. */
#define ENGINE_CUT_NS 1000000000ull
void engine_capture_cut(struct engine_capture *capture);
/* Ends the capture now, without a result: on_end(SONDE_CANCELLED). */
void engine_capture_cancel(struct engine_capture *capture);
/* Gives the handle up, but does not end the capture. Call it exactly once, at any time; after
 * engine_destroy, too. */
void engine_capture_release(struct engine_capture *capture);

/* Sessions (StartCpu, StopCpu): one per target. The last result is kept until the next start, or
 * until the target goes. */
struct engine_session_info {
    int64_t start_unix_ns, lease_until_unix_ns;
    char owner[65];
};
SONDE_MUST_USE sonde_err engine_session_start(struct engine *engine,
                                              const struct engine_cpu_spec *spec, uint32_t lease_ms,
                                              const char *owner, struct engine_session_info *info,
                                              struct sonde_diag *diag);
/* on_profile takes the profile (an empty one if no session ever ran), then on_end follows. */
SONDE_MUST_USE sonde_err engine_session_stop(struct engine *engine,
                                             const struct engine_selector *selector,
                                             const struct engine_capture_events *events,
                                             void *context, struct sonde_diag *diag);

/* The allocations made during a window, including those freed meanwhile, as estimates that need no
 * further scaling. Sample types: alloc_objects/count and alloc_space/bytes. A comment says how
 * Sonde's sampler took them (by wrapping malloc, or in jemalloc's hooks) and at which rate. */
#define ENGINE_ALLOCS_SAMPLE   (512u << 10)
#define ENGINE_ALLOCS_MAX      (1u << 30)
#define ENGINE_ALLOCS_EVERY_MS 60000u /* longest window that may take every allocation */

struct engine_allocs_spec {
    struct engine_selector target;
    uint32_t duration_ms;  /* 1..3600000, 0 = until engine_capture_finish */
    uint64_t sample_bytes; /* average bytes between samples, 1..1 GiB; 0 = 512 KiB; 1 = all */
    double probability;    /* instead: the chance of each allocation, 0 < p <= 1; 0 = not set */
    uint32_t progress_ms;  /* 0 = no progress events */
    bool keep_allocator_frames;
    bool is_endless; /* one of a chain of windows: NOT_AVAILABLE where only hooks can sample */
};

/* Events and handle as for engine_capture_cpu; engine_metadata has period_ns 0 and clock "". The
 * window begins when the target's sampler runs, not with the call. Returned at once: TARGET_*,
 * INVALID_ARGUMENT. With on_end: NOT_AVAILABLE, whose text says why. */
SONDE_MUST_USE sonde_err engine_capture_allocs(struct engine *engine,
                                               const struct engine_allocs_spec *spec,
                                               const struct engine_capture_events *events,
                                               void *context, struct engine_capture **capture,
                                               struct sonde_diag *diag);

/* StartAllocs, StopAllocs: like engine_session_*. One session per target (SESSION_BUSY), ended by
 * its lease (0 = 10 min, or ENGINE_ALLOCS_EVERY_MS if every allocation is taken). The last result
 * is kept. spec->duration_ms and progress_ms are ignored.
 *
 * After SONDE_OK, on_started is called once, on any thread: when sampling has begun, or with the
 * error that engine_capture_allocs reports with on_end. After an error there is no session. */
typedef void engine_on_session(void *context, sonde_err err, const struct sonde_diag *diag,
                               const struct engine_session_info *info);
SONDE_MUST_USE sonde_err engine_allocs_start(struct engine *engine,
                                             const struct engine_allocs_spec *spec,
                                             uint32_t lease_ms, const char *owner,
                                             engine_on_session *on_started, void *context,
                                             struct sonde_diag *diag);
SONDE_MUST_USE sonde_err engine_allocs_stop(struct engine *engine,
                                            const struct engine_selector *selector,
                                            const struct engine_capture_events *events,
                                            void *context, struct sonde_diag *diag);

/* For clients that ask again and again: the allocations since the last call with the same key, or,
 * with is_total, since the first one. The first call starts a window and answers with an empty
 * profile; each call ends the window of the call before and starts the next. A key that is not used
 * for spec->duration_ms (0 = ENGINE_ALLOCS_POLL_MS) is forgotten. spec->progress_ms is ignored.
 * SONDE_TOO_MANY_CAPTURES beyond ENGINE_ALLOCS_POLLS keys of a target. NOT_AVAILABLE if the
 * target's malloc can only be sampled in jemalloc's hooks, which are too slow to stay installed. */
#define ENGINE_ALLOCS_POLLS      8u
#define ENGINE_ALLOCS_POLL_MS    600000u
#define ENGINE_ALLOCS_POLL_KEY   64u         /* longest key, in bytes */
#define ENGINE_ALLOCS_POLL_BYTES (32u << 20) /* of a total */
SONDE_MUST_USE sonde_err engine_allocs_poll(struct engine *engine,
                                            const struct engine_allocs_spec *spec, const char *key,
                                            bool is_total,
                                            const struct engine_capture_events *events,
                                            void *context, struct sonde_diag *diag);

/* Names for runtime addresses of a target. */
struct engine_symbol {
    const struct symbol_frame *frames; /* service/symbol/symbol.h */
    uint32_t frame_count;
    int quality;                   /* enum symbol_quality */
    const char *module, *build_id; /* "" = none */
    uint64_t module_offset;
    const char *reason; /* why quality is not SYMBOL_FULL; "" = it is, or there is no module */
    bool is_improving;  /* a line table is being built, so a later request returns more */
    bool is_folded;     /* several functions share this code */
    /* Of unnamed code of an allocator: its nearest exported function; otherwise NULL. */
    const char *allocator_name;
    enum sonde_frame_kind kind;
};
/* Called once, on a worker. symbols is NULL unless err is SONDE_OK. */
typedef void engine_on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                               const struct engine_symbol *symbols, size_t count);
SONDE_MUST_USE sonde_err engine_symbolize(struct engine *engine,
                                          const struct engine_selector *selector,
                                          const uint64_t *addresses, size_t count,
                                          bool return_addresses, engine_on_symbols *on_answer,
                                          void *context, struct sonde_diag *diag);

/* Names for addresses without a target: in one file, or in mappings as a profile lists them.
 * Addresses in a mapping with an unknown build-id stay unnamed. An unknown build-id of the one file
 * is SONDE_NOT_FOUND, passed to on_answer. All arguments are copied. */
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

/* The operations of service/symbol/files/files.h on the engine's symbol store. They block: call
 * them on a worker. */
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

/* Runs work->run on a worker; service/rpc renders results this way. False if 1,024 are queued or
 * the engine is shutting down. */
struct engine_work {
    void (*run)(struct engine_work *work);
    struct engine_work *next;
};
bool engine_submit(struct engine *engine, struct engine_work *work);

#endif
