/* SPDX-License-Identifier: Apache-2.0
 *
 * A guest that a test drives step by step: it speaks the protocol over the real socket and writes
 * real ring records. It is part of the test's process, so its pid, mappings and functions are those
 * of the test. */
#ifndef SONDE_TESTS_UNIT_ENGINE_FAKE_GUEST_H
#define SONDE_TESTS_UNIT_ENGINE_FAKE_GUEST_H

#include "proto/sonde/v1/guest.pb.h"
#include "service/engine/engine.h"
#include "service/guest/ring.h"

#define FAKE_RING_BYTES (64u << 10)
/* The number of threads in CpuState is this plus the sequence of the answered CpuConfig, so that a
 * test can see the arrival of the answer. */
#define FAKE_THREADS 100u

struct fake_guest {
    int fd, rings_fd;
    char *rings;
    size_t rings_bytes;
    uint32_t ring_count;
    uint32_t tables; /* Table frames read so far */
    int last_fd;     /* descriptor of the last frame; closed when the next one is read */
};

/* How far the CLOCK_MONOTONIC of guests that connect from now on is ahead of the test's. */
extern int64_t fake_clock_ahead_ns;

/* fake_connect connects, and fake_hello sends Hello with a uuid made from uuid_seed. */
void fake_connect(struct fake_guest *guest, const char *path);
void fake_hello(struct fake_guest *guest, const char *name, uint32_t uuid_seed);
/* Does both and waits for Welcome. */
void fake_attach(struct fake_guest *guest, const char *path, const char *name, uint32_t uuid_seed);
void fake_send(struct fake_guest *guest, const sonde_guest_v1_FromGuest *message, int fd);
void fake_send_raw(struct fake_guest *guest, const void *bytes, size_t len);
/* Reads the next frame; false at the end of the stream, or when none arrives within 5 s. */
bool fake_read(struct fake_guest *guest, sonde_guest_v1_ToGuest *message);
/* Reads frames until one has that tag; otherwise fails the test. */
void fake_expect(struct fake_guest *guest, pb_size_t tag, sonde_guest_v1_ToGuest *message);
/* True when nothing arrives within that time. */
bool fake_is_quiet(struct fake_guest *guest, int timeout_ms);
/* Waits up to 5 s for sonded to close the connection. False when it sends something or does not
 * close. */
bool fake_is_disconnected(struct fake_guest *guest);

void fake_make_rings(struct fake_guest *guest, uint32_t count);
void fake_send_rings(struct fake_guest *guest);
/* Sends the test's own executable mappings, in parts. */
void fake_send_maps(struct fake_guest *guest, uint64_t generation);
void fake_send_state(struct fake_guest *guest, uint32_t sequence, bool running, const char *clock);

/* Waits for a CpuConfig with a period, sends rings (the first time) and maps, reads the tables and
 * sends CpuState. Returns the CpuConfig. */
sonde_guest_v1_CpuConfig fake_start(struct fake_guest *guest);
/* Waits for a CpuConfig with period 0 and confirms it. */
void fake_stop(struct fake_guest *guest);

/* Write records; false when the ring is full, which is counted as a real guest does. */
bool fake_push_sample(struct fake_guest *guest, uint32_t tid, uint64_t weight_ns,
                      const uint64_t *pcs, uint16_t depth);
struct fake_sample {
    uint32_t tid, generation, label;
    uint64_t weight_ns, request;
    uint64_t blocked_until_ns; /* if not 0, a BLOCKED record with that time */
    uint64_t time_ns;          /* of a sample; 0 = unknown */
    uint8_t end;
    uint16_t gap_at;
};
bool fake_push(struct fake_guest *guest, const struct fake_sample *sample, const uint64_t *pcs,
               uint16_t depth);
bool fake_push_thread(struct fake_guest *guest, uint32_t tid, const char *name, uint32_t label,
                      const char *text);
bool fake_push_unseen(struct fake_guest *guest, uint32_t tid, uint64_t cpu_ns, uint32_t cause);
/* Waits until sonded has read all records. */
void fake_wait_drained(struct fake_guest *guest);

/* Sends a CpuAccount, and sets the handlers' sums in the rings. */
void fake_send_account(struct fake_guest *guest, uint64_t guest_cpu_ns, uint64_t handler_ns,
                       uint64_t handler_count);

void fake_close(struct fake_guest *guest);

#endif
