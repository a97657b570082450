/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the rings between guest and sonded: one memfd, created by the guest and mapped by
 * both.
 *
 *     page 0: struct ring_header | ring 0: control page, data | ring 1: control page, data | ...
 *
 * A ring has many producers, the signal handlers of threads whose tid selects it, and one consumer,
 * sonded. A producer reserves space by compare-and-swap on `head`, at most RING_TRIES times; then
 * it counts RING_DROP_CONTENDED. It writes its record and publishes it by a release store of the
 * record's `size`, which is 0 until then. The consumer reads from `tail` while `size` is not 0,
 * copies the record, zeroes its bytes and then moves `tail`, so free space is always zero. When a
 * ring is full, the producer drops the record and counts it. Neither side waits for the other.
 * sonded checks all sizes and depths before it uses them.
 *
 * A record never wraps. If the rest of the ring is too short, the producer reserves it as well and
 * publishes a RING_RECORD_PAD of that size; a pad of 8 bytes has no more than size, kind and depth.
 * head and tail are byte counts that only grow; the position is `count % ring_bytes`. */
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
    RING_DROP_NO_CONTEXT, /* the thread has no entry or walk cache, or there is no module map */
    RING_DROP_NESTED,     /* a tick inside a tick of the same thread */
    RING_DROP_NO_STACK,   /* less than TICK_STACK of stack was left below the signal's frame */
    RING_DROP_COUNT
};

#define RING_DROPS_FIRST 4u /* causes of the first version of this layout */

struct ring_header { /* page 0; only the guest writes */
    uint64_t magic;
    uint32_t version; /* 1 */
    uint32_t ring_count;
    uint64_t ring_bytes;
    _Atomic uint64_t drops[RING_DROPS_FIRST]; /* events, since the rings were made (ring_drops) */
    _Atomic uint64_t dropped_ns;              /* CPU time of all dropped events */
    /* Time spent in our handlers, without the kernel's part of the signal, measured by the wall
     * clock. A run of 50 us or more was preempted and counts as the mean of the shorter ones (50 us
     * if there are none). */
    _Atomic uint64_t handler_ns;
    _Atomic uint64_t handler_count;
    _Atomic uint64_t later_drops[RING_DROP_COUNT - RING_DROPS_FIRST]; /* 0 in older guests */
};

/* The counter of a cause. */
static inline _Atomic uint64_t *ring_drops(struct ring_header *header, enum ring_drop cause) {
    return cause < RING_DROPS_FIRST ? &header->drops[cause]
                                    : &header->later_drops[cause - RING_DROPS_FIRST];
}

struct ring_control { /* the page before each ring's data; head and tail on separate cache lines */
    _Alignas(64) _Atomic uint64_t head; /* written by the guest */
    _Alignas(64) _Atomic uint64_t tail; /* written by sonded */
};

enum ring_record_kind {
    RING_RECORD_PAD = 1,
    RING_RECORD_SAMPLE = 2,
    RING_RECORD_THREAD = 3,  /* name of a tid: before its first sample and after a change */
    RING_RECORD_UNSEEN = 4,  /* time without samples, by cause */
    RING_RECORD_BLOCKED = 5, /* laid out like SAMPLE: time for which the thread was blocked */
    RING_RECORD_SPAN = 6,    /* what the request of a sample that follows stands for */
};

/* How a stack ended. */
enum ring_stack_end {
    RING_END_ROOT = 0,  /* complete: the rule says that there is no caller */
    RING_END_DEPTH,     /* too deep: the leaf-most and root-most frames are kept, see gap_at */
    RING_END_NO_TABLE,  /* a pc outside all modules, and no usable frame pointer */
    RING_END_RULE,      /* a rule that the table format cannot express */
    RING_END_BAD_STACK, /* an address outside the stack, or unreadable memory */
    RING_END_COUNT
};

/* The start of each record. Sizes are multiples of 8 bytes. */
struct ring_record {
    _Atomic uint32_t size; /* of the whole record in bytes; 0 = not published yet */
    uint16_t kind;
    uint16_t depth; /* SAMPLE: number of pcs */
    uint32_t tid;
    uint32_t generation; /* of the module map used for the walk; low 32 bits */
};

struct ring_sample {
    struct ring_record record;
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    uint64_t weight_ns; /* CPU time that this sample stands for; BLOCKED:
                           wall time up to time_ns */
    uint64_t request;   /* of sonde_label_request, or of a SPAN; 0 = none */
    uint32_t label;     /* id of the thread's label, 0 = none */
    uint8_t end;        /* enum ring_stack_end */
    uint8_t fp_frames;  /* frames found by frame pointer, at most 255 */
    uint16_t gap_at;    /* END_DEPTH: index of the first pc after the gap; otherwise 0 */
    uint64_t pcs[]; /* leaf first: the interrupted pc, then return addresses, except those marked
                       RING_PC_EXACT */
};

/* Marks a pc that is not a return address, but where a signal interrupted the code. User addresses
 * of x86-64 never have bit 63 set. */
#define RING_PC_EXACT (1ull << 63)

struct ring_thread {
    struct ring_record record;
    char name[16];  /* comm, padded with NULs */
    uint32_t label; /* id of the label text that follows when label_len > 0 */
    uint32_t label_len;
    char text[64];
};

/* The span of OpenTelemetry that a thread works on (service/guest/labels/otel_context.h). */
struct ring_span {
    struct ring_record record;
    uint64_t request; /* a hash of the ids */
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

enum ring_unseen_cause {
    /* CPU time */
    RING_UNSEEN_BLOCKED = 1, /* the thread had our signal blocked */
    RING_UNSEEN_NO_CLOCK = 2,
    RING_UNSEEN_SHORT = 3, /* before the thread was found */
    /* Wall time off the CPU, if the capture asks for it */
    RING_UNSEEN_ASLEEP = 4,  /* the stack is not known */
    RING_UNSEEN_WAITING = 5, /* for a CPU */
    /* CPU time */
    RING_UNSEEN_KERNEL = 6, /* in the kernel, where the clock does not tick */
    RING_UNSEEN_BEFORE = 7, /* before the first clock ran, if sonded asks for that */
    RING_UNSEEN_LAST = RING_UNSEEN_BEFORE
};

struct ring_unseen {
    struct ring_record record;
    uint64_t cpu_ns; /* or wall time, see the cause */
    uint32_t cause;  /* enum ring_unseen_cause */
    uint32_t reserved;
};

#endif
