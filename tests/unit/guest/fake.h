/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal sonded for the guest's tests: it listens, starts a program with the guest, requests
 * captures, compiles unwind tables for the guest's mappings, and keeps every record from the rings.
 * One thread. If the guest violates the protocol, the running test fails at once. */
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
    uint64_t pcs[FAKE_PCS]; /* leaf first; only the leaf-most ones */
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
    uint32_t labels_told; /* how often the guest said that labels are in use */
    bool gone, no_tables;
    bool counts_past;    /* sent with every fake_configure */
    bool has_bad_tables; /* the tables are sent without the seals that the guest asks for */
    uint64_t generation;
    struct ring_header *rings;
    size_t rings_bytes;
    struct fake_sample *samples;
    size_t sample_count, sample_room;
    struct fake_sample *blocked; /* weight_ns is wall time */
    size_t blocked_count, blocked_room;
    uint64_t wall_period_ns; /* sent with every fake_configure */
    struct fake_unseen *unseen;
    size_t unseen_count, unseen_room;
    struct ring_thread *threads; /* records in order */
    size_t thread_count, thread_room;
    uint8_t input[4 + 16384];
    size_t input_len;
    int rings_fd; /* received, not mapped yet */
    sonde_guest_v1_Mapping *mappings;
    size_t mapping_count;
};

struct fake {
    char folder[32], path[64];
    int listener;
    bool is_linked; /* set before fake_open: programs link the library */
};

void fake_open(struct fake *fake);
void fake_close(struct fake *fake);
/* Closes and removes the socket, and binds the same path again after away_ms. */
void fake_rebind(struct fake *fake, int away_ms);
/* Starts argv[0], a program of the runfiles, with the guest preloaded. Its stdin and stdout are
 * pipes. */
struct fake_child {
    pid_t pid;
    int in, out;
};
void fake_spawn(const struct fake *fake, char *const argv[], struct fake_child *child);
/* Reads a line of its stdout, without the newline. Fails the test after 30 s. */
void fake_read_line(struct fake_child *child, char *line, size_t size);
/* Writes a newline to its stdin, which lets it continue. */
void fake_poke(struct fake_child *child);
/* Waits for its end and returns the wait status. Fails the test after 30 s. */
int fake_wait(struct fake_child *child);

/* Waits for a guest that connects and sends Hello; false after timeout_ms. */
bool fake_accept(struct fake *fake, struct fake_guest *guest, int timeout_ms);
/* Waits for the guest of this pid, and drops others. Fails the test after 10 s. */
void fake_accept_pid(struct fake *fake, struct fake_guest *guest, pid_t pid);
void fake_release(struct fake_guest *guest);

/* Sends CpuConfig and reads until the CpuState that answers it. */
void fake_configure(struct fake_guest *guest, uint64_t period_ns, sonde_guest_v1_ClockChoice clock);
/* Reads messages and rings for `ms`, or until the guest disconnects. */
void fake_pump(struct fake_guest *guest, int ms);
/* Reads until *counter, a field of the guest, is at least `least`. Fails the test after 10 s. */
void fake_pump_until(struct fake_guest *guest, const uint32_t *counter, uint32_t least);
void fake_stop(struct fake_guest *guest);

/* Sums of what was received; tid 0 = all threads. */
uint64_t fake_weight(const struct fake_guest *guest, uint32_t tid);
uint64_t fake_unseen_sum(const struct fake_guest *guest, uint32_t tid, uint32_t cause);
/* Weight of the samples with a pc in [low, high) in any frame: the code there and all it calls. */
uint64_t fake_weight_in(const struct fake_guest *guest, uint64_t low, uint64_t high);
/* The same for the time that threads were blocked. */
uint64_t fake_blocked(const struct fake_guest *guest, uint32_t tid);
uint64_t fake_blocked_in(const struct fake_guest *guest, uint32_t tid, uint64_t low, uint64_t high);
/* Dropped records, without nested ticks. */
uint64_t fake_drops(const struct fake_guest *guest);
/* Ticks inside a tick. A virtual machine may have one or two, when its host has taken the CPU. */
uint64_t fake_nested(const struct fake_guest *guest);
void fake_forget(struct fake_guest *guest); /* drops all samples so far */

#endif
