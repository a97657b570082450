/* SPDX-License-Identifier: Apache-2.0
 *
 * The signal-safe room: what a tick finds when it arrives. Everything in here was made ready
 * outside (service/guest) before the first clock was armed; a handler takes no lock, allocates
 * nothing, calls nothing but the names in ALLOWED, and lives on less than 2 KiB of stack.
 *
 * Each sampled thread has a seat: its clock, its stack, its cache, its accounts. The clock's signal
 * carries a ticket that names the seat (perf's sig_data, the timer's sigval), so a handler needs
 * neither thread-local storage nor a look-up, and a late signal of an earlier capture is known by
 * its ticket and does nothing.
 *
 * Who writes what: a seat's "handler" fields are written by the handler on the seat's own thread
 * while `inside` is 1; the others by the control thread (or by the seat's thread itself, as it
 * starts and ends) while no clock of the seat is armed. Memory that a handler may read is given
 * back only after room_quiet has said yes. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_HANDLER_STATE_H
#define SONDE_SERVICE_GUEST_SIGNAL_HANDLER_STATE_H

#define SONDE_SIGSAFE

#include "service/guest/raw.h"
#include "service/guest/ring.h"
#include "service/guest/signal/walk.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#pragma GCC visibility push(hidden) /* no detour through the global offset table */

#define ROOM_SEATS       32768u /* threads sampled at once; later ones are counted as not seen */
#define ROOM_STACKS      4096u  /* of sonde_stack_add */
#define ROOM_LABELS      1024u
#define ROOM_LABEL_BYTES 64u
#define ROOM_TIDS        (4u << 20)                         /* the largest pid_max there is */
#define ROOM_CPU_OF(tid) ((int)(~(unsigned)(tid) << 3 | 6)) /* clockid of a thread's CPU clock */
#define ROOM_NAME_TICKS  64u     /* between two looks at a thread's name */
#define ROOM_TOLD_TICKS  1024u   /* between two tellings of it */
#define ROOM_SAFE_NS     100000u /* perf's timer may repeat so fast: a handler run fits in */
#define ROOM_LONG_NS     50000u  /* a handler that took longer had lost the CPU */

enum room_clock { ROOM_CLOCK_NONE, ROOM_CLOCK_PERF, ROOM_CLOCK_TIMER, ROOM_CLOCK_PROCESS };

struct room_seat {
    /* Set outside. */
    uint32_t tid;
    _Atomic uint32_t incarnation; /* 24 bits, of the ticket; 0 = the seat is free */
    uint8_t clock;                /* enum room_clock */
    bool user_only;               /* the clock does not tick inside the kernel */
    _Atomic int fd;               /* perf event, -1 */
    _Atomic int timer;            /* kernel's timer id, -1 */
    _Atomic uint64_t reported_ns; /* CPU time the control thread has reported as not seen */
    _Atomic int64_t
        restart_ns; /* not 0: due = clock - this - reported; the handler takes it as its new base */
    uint32_t scanned;           /* number of the scan that saw the thread last */
    uint64_t looked_counted_ns; /* counted_ns when the control thread looked last */
    struct walk_cache *cache;

    /* The handler's. */
    _Atomic uint32_t inside;
    uint32_t until_renewal; /* ticks until the period is drawn anew */
    bool odd_span;     /* the clock was set to another span than the period for its next tick */
    bool once;         /* perf's event stops at its next tick, and is enabled again there */
    uint32_t rounding; /* of room_periods, drawn once: a part of 2^32 */
    bool exact;        /* no tick since the clock was armed: the next is held to its phase */
    uint32_t until_name, until_told;
    uint32_t label_told;
    bool announced;
    char name[16];
    uint64_t random;
    uint64_t period_ns;          /* the one armed now */
    uint64_t nominal_ns;         /* it was drawn around this */
    uint64_t last_ns;            /* CLOCK_MONOTONIC of the last tick */
    int64_t base_ns;             /* of the thread's CPU clock; see room_due */
    _Atomic uint64_t counted_ns; /* sum of weights */
    _Atomic uint64_t handler_ns; /* see ring.h: those below ROOM_LONG_NS */
    _Atomic uint64_t handler_count;
    _Atomic uint64_t handler_long; /* of them, those above */
    struct walk_stack stack;       /* [0,0) = not known yet */
};

/* Readable and writable mappings at the last look, sorted: where the stack of a thread that nobody
 * announced may lie. */
struct room_areas {
    uint64_t count;
    struct walk_stack areas[];
};

struct room_label {
    _Atomic uint32_t state; /* 0 free, 1 being written, 2 ready */
    char text[ROOM_LABEL_BYTES];
};

/* The rings, with our own copy of their sizes: the shared header can be written by sonded. */
struct ring_set {
    struct ring_header *header;
    uint32_t count; /* a power of two */
    uint64_t bytes; /* of each, a power of two */
};

/* A walk_map and the generation of Maps it was made from. walk.generation is another number: it
 * grows with every publication, so that caches also notice tables that come late for the same
 * mappings. */
struct room_map {
    struct walk_map walk;
    uint32_t generation;
};

struct room {
    _Atomic bool open; /* a capture runs */
    uint32_t secret;   /* 24 bits, of the tickets */
    struct room_seat *seats;
    _Atomic uint64_t period_ns; /* nominal */
    _Atomic uint32_t max_depth;
    _Atomic(const struct room_map *) map;
    _Atomic(const struct room_areas *) areas;
    struct ring_set rings;
    struct walk_stack main_stack;
    uint32_t pid;
    int wake_fd;                    /* room_wake */
    _Atomic uint32_t misses_wanted; /* 1: the next pc in no known module wakes the control thread */
    _Atomic uint32_t missed;
    int timer_signal;            /* 0 = none chosen yet */
    _Atomic uint32_t process_in; /* handlers of the process-wide clock that run now */
    _Atomic uint64_t process_last_ns;
    _Atomic uint16_t *seat_of;    /* by tid: number of the seat + 1; ROOM_TIDS of them */
    _Atomic uint32_t stack_count; /* high-water mark */
    struct {
        _Atomic uint64_t low, high; /* low 0 = free */
    } stacks[ROOM_STACKS];
    struct room_label labels[ROOM_LABELS]; /* id = index + 1 */
};

extern struct room room;

/* What sonde_label_* sets; read by the handler of the same thread. */
struct room_tags {
    uint64_t request;
    uint32_t label;
};
extern __thread struct room_tags room_tags __attribute__((tls_model("initial-exec")));

/* 24 bits secret, 24 bits incarnation, 16 bits seat. */
static inline uint64_t room_ticket(uint32_t incarnation, uint32_t seat) {
    return (uint64_t)room.secret << 40 | (uint64_t)incarnation << 16 | seat;
}

/* Random number and a period within +-50 % of nominal, whose mean is nominal. Signal-safe; the
 * seat's owner only. */
SONDE_SIGSAFE
uint64_t room_random(struct room_seat *seat);
SONDE_SIGSAFE
uint64_t room_dither(struct room_seat *seat, uint64_t nominal_ns);
/* A first phase in (0, period]. */
SONDE_SIGSAFE
uint64_t room_phase(struct room_seat *seat, uint64_t period_ns);

/* The period that the first tick ends, in seat->period_ns, and how many ticks it stays: as they are
 * when one looks at a thread at a random moment of a stream of ticks that always was. Long periods
 * are likelier then. Only so is what a short thread's last, unfinished period takes away balanced
 * by what its first one was given. Nothing else may touch the seat. */
void room_begin_periods(struct room_seat *seat, uint64_t nominal_ns);
/* At a tick: draws the next period every few ticks, and at once when nominal_ns is another one.
 * False: it stays as it is. The seat's owner only. */
SONDE_SIGSAFE
bool room_next_period(struct room_seat *seat, uint64_t nominal_ns);

/* How many periods a tick stands for when so much CPU time is due: it drifts away from the ticks,
 * since a thread's clock also counts the switch to it, which its timer does not. Rounded at a point
 * drawn for each seat (systematic sampling), so that the sum over many threads is right whenever
 * they end. 0: the tick came early, when the hypervisor had the CPU. The first tick is held to its
 * phase exactly: many threads have no other. */
SONDE_SIGSAFE
uint64_t room_periods(const struct room_seat *seat, uint64_t due_ns);

/* CPU time of the seat's thread that no record stands for yet, cpu_ns being its clock now: clock -
 * base - counted - reported. base is set so that a full period is due when the first, randomly
 * early, tick arrives. */
SONDE_SIGSAFE
int64_t room_due(const struct room_seat *seat, int64_t cpu_ns);
SONDE_SIGSAFE
int64_t room_clock_ns(int clock);

/* The seat of tid, NULL when it has none. For the process-wide clock and the control thread. */
SONDE_SIGSAFE
struct room_seat *room_find(uint32_t tid);

/* The handlers; installed by service/guest/sampling/install.c with every signal masked. */
SONDE_SIGSAFE
void room_on_trap(int signal, siginfo_t *info, void *context);
SONDE_SIGSAFE
void room_on_timer(int signal, siginfo_t *info, void *context);
SONDE_SIGSAFE
void room_on_prof(int signal, siginfo_t *info, void *context);

/* A sample that is no tick: a thread at its start, by itself, before its clock runs. */
SONDE_SIGSAFE
void room_show_start(struct room_seat *seat, const struct walk_registers *birth,
                     uint64_t weight_ns);

/* Whether a SIGTRAP is one of our ticks, late ones included. */
SONDE_SIGSAFE
bool room_is_tick(const siginfo_t *info);

/* Wakes the control thread: an empty message, which harms no file of the host's that may have got
 * the number. */
static inline void room_wake(void) {
    static const struct msghdr empty;
    if (room.wake_fd >= 0)
        raw_call3(SYS_sendmsg, room.wake_fd, (long)&empty, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A walked pc lies in no known module, since a library came or code was made: the control thread
 * reads the map anew. */
SONDE_SIGSAFE
void room_tell_of_miss(const struct walk_map *map, const uint64_t *pcs,
                       const struct walk_result *walked);

/* Whether no handler is inside at this moment, or each has left since the call began; `limit` is
 * the highest seat + 1. Waits for nobody: false = ask again later. Control thread only. */
bool room_quiet(uint32_t limit);

#pragma GCC visibility pop

#endif
