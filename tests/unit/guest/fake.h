/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest sonded: it listens, starts a program under the guest, asks it for a capture,
 * compiles the tables the guest names, and keeps every record that came through the rings. For the
 * guest's tests, one thread. A broken promise of the guest fails the running test at once. */
#ifndef SONDE_TESTS_UNIT_GUEST_FAKE_H
#define SONDE_TESTS_UNIT_GUEST_FAKE_H

#include "proto/sonde/v1/guest.pb.h"
#include "service/guest/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_PCS 48

struct fake_sample {
    uint32_t tid, generation, label;
    uint16_t depth;
    uint8_t end, fp_frames;
    uint64_t time_ns, weight_ns, request;
    uint64_t pcs[FAKE_PCS]; /* leaf first; the leaf-most only */
    uint64_t root;          /* the last pc */
};

struct fake_unseen {
    uint32_t tid, cause;
    uint64_t cpu_ns;
};

/* One connected guest. */
struct fake_guest {
    int fd;
    sonde_guest_v1_Hello hello;
    sonde_guest_v1_CpuState state; /* the last one */
    sonde_guest_v1_CpuAccount account;
    uint32_t sequence, states, rings_seen, generations;
    bool gone, no_tables;
    uint64_t generation;
    struct ring_header *rings;
    size_t rings_bytes;
    struct fake_sample *samples;
    size_t sample_count, sample_room;
    struct fake_sample *blocked; /* weight_ns is wall time */
    size_t blocked_count, blocked_room;
    uint64_t wall_period_ns; /* asked for with every fake_configure */
    struct fake_unseen *unseen;
    size_t unseen_count, unseen_room;
    struct ring_thread *threads; /* records as they came */
    size_t thread_count, thread_room;
    uint8_t input[4 + 16384];
    size_t input_len;
    int rings_fd; /* came, not mapped yet */
    sonde_guest_v1_Mapping *mappings;
    size_t mapping_count;
};

struct fake {
    char folder[32], path[64];
    int listener;
    bool is_linked; /* set before fake_open: programs bring the library themselves */
};

void fake_open(struct fake *fake);
void fake_close(struct fake *fake);
/* Goes away for so long, its socket's file too, and binds the same path anew. */
void fake_rebind(struct fake *fake, int away_ms);
/* Starts argv[0] (a program of the runfiles) with the guest preloaded; its stdout is a pipe. */
struct fake_child {
    pid_t pid;
    int in, out;
};
void fake_spawn(const struct fake *fake, char *const argv[], struct fake_child *child);
/* The next line of its stdout, without the newline; fails after 30 s. */
void fake_read_line(struct fake_child *child, char *line, size_t size);
/* One newline on its stdin: "go on". */
void fake_poke(struct fake_child *child);
/* Waits for its end: the wait status. Fails after 30 s. */
int fake_wait(struct fake_child *child);

/* The next guest that connects and has said hello; false after timeout_ms. */
bool fake_accept(struct fake *fake, struct fake_guest *guest, int timeout_ms);
/* Accepts until the guest of this pid comes (others are let go); fails after 10 s. */
void fake_accept_pid(struct fake *fake, struct fake_guest *guest, pid_t pid);
void fake_release(struct fake_guest *guest);

/* Sends CpuConfig and pumps until the CpuState that answers it. */
void fake_configure(struct fake_guest *guest, uint64_t period_ns, sonde_guest_v1_ClockChoice clock);
/* Reads messages and rings for so long; ends early when the guest is gone. */
void fake_pump(struct fake_guest *guest, int ms);
/* The same, until *counter (of the guest) is at least `least`; fails after 10 s. */
void fake_pump_until(struct fake_guest *guest, const uint32_t *counter, uint32_t least);
void fake_stop(struct fake_guest *guest);

/* Sums over what came. tid 0 = all. */
uint64_t fake_weight(const struct fake_guest *guest, uint32_t tid);
uint64_t fake_unseen_sum(const struct fake_guest *guest, uint32_t tid, uint32_t cause);
/* Weight of the samples with a pc in [low, high) in any of their frames: code in that range, and
 * all that it calls. */
uint64_t fake_weight_in(const struct fake_guest *guest, uint64_t low, uint64_t high);
/* The same of the time threads were blocked for, over all frames. */
uint64_t fake_blocked(const struct fake_guest *guest, uint32_t tid);
uint64_t fake_blocked_in(const struct fake_guest *guest, uint32_t tid, uint64_t low, uint64_t high);
/* Dropped records, without nested ticks. */
uint64_t fake_drops(const struct fake_guest *guest);
/* Ticks inside a tick: one or two on a virtual machine whose host took the CPU away meanwhile. */
uint64_t fake_nested(const struct fake_guest *guest);
void fake_forget(struct fake_guest *guest); /* drops what came so far */

#endif
