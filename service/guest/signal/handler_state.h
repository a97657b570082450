/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything the guest's signal handlers read or write. The control thread fills it in before it
 * arms the first clock, so a handler takes no lock, allocates nothing, calls only the libc names in
 * ALLOWED and uses less than 2 KiB of stack.
 *
 * Each sampled thread has one struct sampled_thread: its clock, stack bounds, walk cache and
 * counters. The clock's signal carries a cookie that names it (perf: sig_data, timer: sigval), so a
 * handler needs neither thread-local storage nor a lookup. The cookie also holds the incarnation of
 * the entry: a late signal of an earlier capture does not match and is ignored.
 *
 * The handler fields of a sampled thread are written by the handler on that thread, while
 * `in_handler` is 1. The other fields are written by the control thread, or by the thread itself as
 * it starts and ends, while the thread has no armed clock. Memory that a handler may read is freed
 * only after handler_is_quiescent has returned true. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_HANDLER_STATE_H
#define SONDE_SERVICE_GUEST_SIGNAL_HANDLER_STATE_H

#define SONDE_SIGSAFE /* marks a function that a signal handler may call */

#include "service/guest/raw.h"
#include "service/guest/ring.h"
#include "service/guest/signal/walk.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#pragma GCC visibility push(hidden) /* direct access, without the global offset table */

#define SAMPLED_THREADS_MAX  32768u /* sampled at once; the time of further threads is unseen */
#define EXTRA_STACKS_MAX     4096u  /* sonde_stack_add */
#define THREAD_LABELS_MAX    1024u
#define THREAD_LABEL_BYTES   64u
#define HANDLER_TIDS         (4u << 20) /* the largest pid_max of Linux */
#define HANDLER_PREEMPTED_NS 50000u     /* a handler that ran longer had lost the CPU meanwhile */
#define NAME_CHECK_TICKS     64u        /* between two looks at a thread's name */
#define NAME_REPEAT_TICKS    1024u      /* between two records of an unchanged name */

/* The clockid of another thread's CPU clock, as the kernel encodes it. */
#define THREAD_CPU_CLOCK(tid) ((int)(~(unsigned)(tid) << 3 | 6))

enum sample_clock {
    SAMPLE_CLOCK_NONE,
    SAMPLE_CLOCK_PERF,
    SAMPLE_CLOCK_TIMER,
    SAMPLE_CLOCK_PROCESS
};

struct sampled_thread {
    /* Written outside handlers. */
    uint32_t tid;                 /* 0 = the entry is free */
    _Atomic uint32_t incarnation; /* 24 bits, part of the cookie; 0 = the entry is free */
    uint8_t clock;                /* enum sample_clock */
    bool user_only;               /* the clock does not tick inside the kernel */
    _Atomic int fd;               /* perf event, -1 = none */
    _Atomic int timer;            /* kernel timer id, -1 = none */
    _Atomic uint64_t reported_ns; /* CPU time that the control thread reported as unseen */
    _Atomic int64_t restart_ns;   /* base_ns for the next tick, which resets it; 0 = unchanged */
    uint32_t last_scan;           /* number of the last scan that saw the thread */
    uint64_t checked_counted_ns;  /* counted_ns when the control thread checked last */
    struct walk_cache *cache;

    /* Written by the handler. */
    _Atomic uint32_t in_handler;
    uint32_t until_renewal;  /* ticks until a new period is drawn */
    bool one_off_period;     /* the clock was armed with another span for its next tick */
    bool one_shot;           /* the perf event stops at its next tick, which enables it again */
    uint32_t rounding_point; /* drawn once, a fraction of 2^32 (period_count) */
    bool is_first_tick;      /* no tick has counted since the clock was armed */
    uint32_t until_name_check, until_name_repeat; /* ticks */
    uint32_t sent_label;
    bool name_sent;
    char name[16];
    uint64_t random;             /* state of period_random, never 0 */
    uint64_t period_ns;          /* the one armed now */
    uint64_t nominal_ns;         /* the capture's period, around which period_ns was drawn */
    uint64_t last_ns;            /* CLOCK_MONOTONIC of the last tick */
    int64_t base_ns;             /* on the thread's CPU clock (period_due_ns) */
    _Atomic uint64_t counted_ns; /* sum of the samples' weights */
    _Atomic uint64_t handler_ns; /* of runs shorter than HANDLER_PREEMPTED_NS (ring.h) */
    _Atomic uint64_t handler_runs;
    _Atomic uint64_t preempted_runs; /* of HANDLER_PREEMPTED_NS or more; part of handler_runs */
    struct walk_stack stack;         /* [0,0) = not known yet */
};

/* Readable and writable mappings, sorted by address, as of the last reading of /proc/self/maps. A
 * thread that did not start through pthread_create has its stack in one of them. */
struct writable_areas {
    uint64_t count;
    struct walk_stack areas[];
};

struct thread_label {
    _Atomic uint32_t state; /* 0 free, 1 being written, 2 ready */
    char text[THREAD_LABEL_BYTES];
};

/* The rings. Sizes are kept here because sonded can write to the shared header. */
struct ring_set {
    struct ring_header *header;
    uint32_t count; /* a power of two */
    uint64_t bytes; /* of each, a power of two */
};

/* The published modules and tables (maps/module_map.h). `generation` is that of the Maps message.
 * walk.generation grows with every publication, so that walk caches also notice a table that
 * arrives later for the same mappings. */
struct module_map {
    struct walk_map walk;
    uint32_t generation;
    bool is_complete; /* sonded has sent every table that it has for these modules */
    /* For the places of heap stacks (handler_place): the generation that first had each module, in
     * the order of the modules; the lowest of them; and a range that holds all younger modules. */
    const uint32_t *born;
    uint32_t oldest;
    uint64_t young_low, young_high;
    _Atomic uint32_t closes; /* handler_state.closes when the maps were last read */
};

#define HANDLER_PLACE_SETTLED UINT32_MAX

/* Which files a stack's pcs are in. Settled: those of `generation`, the youngest generation that
 * any module of the stack is from, so an unrelated dlopen does not change the place. Otherwise a pc
 * is in no known module, or the maps have not been read since a dlclose. Then `generation` is that
 * of the map, `closes` is the value of handler_state.closes at the walk, and sonded decides. */
struct handler_place {
    uint32_t generation;
    uint32_t closes; /* HANDLER_PLACE_SETTLED, or see above */
    bool has_missed; /* a pc is in no known module */
};

struct handler_state {
    _Atomic bool sampling; /* a capture runs */
    uint32_t secret;       /* 24 bits, part of the cookies */
    struct sampled_thread *threads;
    _Atomic uint64_t period_ns; /* nominal */
    _Atomic uint32_t max_depth;
    _Atomic(const struct module_map *) map;
    _Atomic(const struct writable_areas *) areas;
    struct ring_set rings;
    struct walk_stack main_stack;
    uint32_t pid;
    int wake_fd;                 /* handler_wake_control; -1 = none */
    _Atomic uint32_t wants_miss; /* 1: the next pc in no known module wakes the control thread */
    _Atomic uint32_t missed;     /* 1: there was one */
    _Atomic uint32_t closes;     /* grows before and after each dlclose */
    _Atomic bool uses_labels;    /* the program has labelled a thread or a request */
    int timer_signal;            /* 0 = not chosen yet */
    int64_t otel_offset;         /* otel_context.h; 0 = spans are not read */
    _Atomic uint32_t process_handlers; /* handlers of the process-wide clock that run now */
    _Atomic uint64_t process_last_ns;
    _Atomic uint16_t *thread_by_tid; /* index in threads + 1, 0 = none; HANDLER_TIDS entries */
    _Atomic uint32_t stack_count;    /* high-water mark of stacks */
    struct {
        _Atomic uint64_t low, high; /* low 0 = free */
    } stacks[EXTRA_STACKS_MAX];
    struct thread_label labels[THREAD_LABELS_MAX]; /* id = index + 1 */
};

extern struct handler_state handler_state;

/* The calling thread's labels (sonde_label_request, sonde_label_thread). Its own handler reads
 * them. */
struct thread_tags {
    uint64_t request; /* 0 = none */
    uint32_t label;   /* id, 0 = none */
};
extern __thread struct thread_tags thread_tags __attribute__((tls_model("initial-exec")));

/* Whether the caller is not the child of a vfork, which has the parent's memory, but neither its
 * threads nor its handlers. Any thread; signal-safe. */
SONDE_SIGSAFE
static inline bool handler_is_own_process(void) {
    return system_call3(SYS_getpid, 0, 0, 0) == (long)handler_state.pid;
}

/* From the high bits down: 24 bits secret, 24 bits incarnation, 16 bits index of the thread. */
static inline uint64_t handler_cookie(uint32_t incarnation, uint32_t index) {
    return (uint64_t)handler_state.secret << 40 | (uint64_t)incarnation << 16 | index;
}

typedef int handler_clock_function(int clock, struct timespec *now);

/* The function of the vdso that reads clocks (process/vdso.h); NULL = make the system call. */
void handler_set_clock(handler_clock_function *function);
/* The clock's reading in ns; 0 when it cannot be read, as for a thread that has ended. Not by
 * libc's clock_gettime, which another library may replace. Any thread; signal-safe. */
SONDE_SIGSAFE
int64_t handler_clock_ns(int clock);

/* The entry of thread `tid`, NULL when it has none. Any thread; signal-safe. */
SONDE_SIGSAFE
struct sampled_thread *handler_find_thread(uint32_t tid);

/* Wakes the control thread. The message is empty: if the process has reused the descriptor's number
 * for a file of its own, that file is not harmed. Any thread; signal-safe. */
SONDE_SIGSAFE
static inline void handler_wake_control(void) {
    static const struct msghdr empty;
    if (handler_state.wake_fd >= 0)
        system_call3(SYS_sendmsg, handler_state.wake_fd, (long)&empty, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Wakes the control thread to read the maps again, if it wants to know (wants_miss) and a walked pc
 * is in no known module: a library was loaded or code was generated. Any thread; signal-safe. */
SONDE_SIGSAFE
void handler_report_miss(const struct walk_map *map, const uint64_t *pcs,
                         const struct walk_result *walked);

/* The place of a walked stack; the pcs may be marked RING_PC_EXACT. Any thread; signal-safe. */
SONDE_SIGSAFE
void handler_place(const struct module_map *map, const uint64_t *pcs,
                   const struct walk_result *walked, struct handler_place *place);

/* True when every handler that was running at the call has returned. `limit` is the highest index
 * of a sampled thread + 1. Does not wait: after false, ask again later. Control thread only. */
bool handler_is_quiescent(uint32_t limit);

#pragma GCC visibility pop

#endif
