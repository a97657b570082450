/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings between guest and sonded: one memfd, made by the guest, mapped by both.
 *
 *     page 0: struct ring_header | ring 0: control page, data | ring 1: control page, data | ...
 *
 * Many producers (signal handlers of the threads whose tid hashes to the ring), one consumer
 * (sonded). A producer reserves by compare-and-swap on `head` (at most RING_TRIES times, then it
 * counts RING_DROP_CONTENDED), writes its record, and publishes it by a release store of the
 * record's `size` word, which is 0 until then. The consumer reads from `tail` while that word is
 * not 0, copies the record out, checks it, zeroes its bytes and only then moves `tail`: reserved
 * memory is always zero. A full ring drops and counts. Neither side ever waits for the other, and
 * sonded believes nothing: sizes and depths are checked against the ring before use.
 *
 * A record never wraps: when the rest of the ring is too short the producer reserves it too and
 * publishes a RING_RECORD_PAD of that size (at least 8 bytes: then size, kind and depth are all of
 * it). head and tail are byte counts that only grow; the place is `count % ring_bytes`. */
#ifndef SONDE_SERVICE_GUEST_RING_H
#define SONDE_SERVICE_GUEST_RING_H

#include <stdatomic.h>
#include <stdint.h>

#define RING_MAGIC     0x31676e6952646e53ull /* "SndRing1" */
#define RING_PAGE      4096u
#define RING_MAX_RINGS 64u
#define RING_MAX_BYTES (16u << 20) /* of one ring's data; a power of two */
#define RING_MIN_BYTES (64u << 10)
#define RING_TRIES     64u
#define RING_MAX_DEPTH 127u

enum ring_drop {
    RING_DROP_FULL,       /* sonded did not keep up */
    RING_DROP_CONTENDED,  /* RING_TRIES lost races */
    RING_DROP_NO_CONTEXT, /* no per-thread context for this thread (table full) */
    RING_DROP_NESTED,     /* a tick inside a tick of the same thread */
    RING_DROP_COUNT
};

struct ring_header { /* page 0, written by the guest only */
    uint64_t magic;
    uint32_t version; /* 1 */
    uint32_t ring_count;
    uint64_t ring_bytes;
    _Atomic uint64_t drops[RING_DROP_COUNT]; /* events, since the rings were made */
    _Atomic uint64_t dropped_ns;             /* CPU time those dropped samples stood for */
    /* CPU time spent in our handlers, without the kernel's part of the signal. Each is timed by the
     * wall clock; one that took 50 us or more was preempted and counts as the mean of the others:
     * sum of the short ones x all / short ones (50 us each when none was short). */
    _Atomic uint64_t handler_ns;
    _Atomic uint64_t handler_count;
};

struct ring_control { /* one page before each ring's data; head and tail on lines of their own */
    _Alignas(64) _Atomic uint64_t head; /* guest */
    _Alignas(64) _Atomic uint64_t tail; /* sonded */
};

enum ring_record_kind {
    RING_RECORD_PAD = 1,
    RING_RECORD_SAMPLE = 2,
    RING_RECORD_THREAD = 3,  /* name of a tid: before its first sample, and again when it changed */
    RING_RECORD_UNSEEN = 4,  /* time that no sample could show, by cause */
    RING_RECORD_BLOCKED = 5, /* laid out as SAMPLE: time a thread was blocked in pcs[0]'s call */
};

/* How a stack ended. */
enum ring_stack_end {
    RING_END_ROOT = 0, /* clean: the rule says there is no caller */
    RING_END_DEPTH, /* over the limit: leaf-most and root-most frames kept, see RING_SAMPLE_GAP */
    RING_END_NO_TABLE,  /* a pc in no known module, and no usable frame pointer */
    RING_END_RULE,      /* a rule the table cannot hold */
    RING_END_BAD_STACK, /* an address outside the known stack, or a fault */
    RING_END_COUNT
};

/* All records start so and are multiples of 8 bytes. */
struct ring_record {
    _Atomic uint32_t size; /* whole record in bytes; 0 = not yet published */
    uint16_t kind;
    uint16_t depth; /* SAMPLE: number of pcs */
    uint32_t tid;
    uint32_t generation; /* of the module map the pcs were taken under; low 32 bits */
};

struct ring_sample {
    struct ring_record record;
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    uint64_t weight_ns; /* CPU time this sample stands for: period x (1 + overruns); BLOCKED: wall
                           time up to time_ns */
    uint64_t request;   /* sonde_label_request of the thread at that moment, 0 = none */
    uint32_t label;     /* id of the thread's label text, 0 = none */
    uint8_t end;        /* enum ring_stack_end */
    uint8_t fp_frames;  /* frames that came by frame pointer, capped at 255 */
    uint16_t gap_at;    /* END_DEPTH: index of the first root-most pc after the gap; otherwise 0 */
    uint64_t pcs[]; /* leaf first; pcs[0] is the interrupted pc, others are return addresses, unless
                       marked */
};

/* A pc that interrupted code rather than a return address (the frame below a signal frame): bit 63
 * set. User addresses of x86-64 never have it. */
#define RING_PC_EXACT (1ull << 63)

struct ring_thread {
    struct ring_record record;
    char name[16];  /* comm, NUL-padded */
    uint32_t label; /* id of the label text that follows when label_len > 0 */
    uint32_t label_len;
    char text[64];
};

enum ring_unseen_cause {
    /* CPU time */
    RING_UNSEEN_BLOCKED = 1, /* the thread had our signal blocked */
    RING_UNSEEN_NO_CLOCK = 2,
    RING_UNSEEN_SHORT = 3, /* of a thread before it was found */
    /* Wall time off the CPU, when that is asked for */
    RING_UNSEEN_ASLEEP = 4,  /* nobody saw where */
    RING_UNSEEN_WAITING = 5, /* for a CPU */
    /* CPU time */
    RING_UNSEEN_KERNEL = 6, /* in the kernel, which the clock may not look into */
    RING_UNSEEN_LAST = RING_UNSEEN_KERNEL
};

struct ring_unseen {
    struct ring_record record;
    uint64_t cpu_ns; /* or wall time, see the cause */
    uint32_t cause;  /* enum ring_unseen_cause */
    uint32_t reserved;
};

#endif
