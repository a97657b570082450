/* SPDX-License-Identifier: Apache-2.0
 *
 * A guest for tests: speaks the protocol over the real socket and writes real ring records, step by
 * step, as the test says. It lives in the test's own process, so its pid, its maps and its
 * functions are the test's. */
#ifndef SONDE_TESTS_UNIT_ENGINE_FAKE_GUEST_H
#define SONDE_TESTS_UNIT_ENGINE_FAKE_GUEST_H

#include "proto/sonde/v1/guest.pb.h"
#include "service/engine/engine.h"
#include "service/guest/ring.h"

#define FAKE_RING_BYTES (64u << 10)
#define FAKE_THREADS \
    100u /* plus the sequence of the CpuConfig it answers: so a test sees that it arrived */

struct fake_guest {
    int fd, rings_fd;
    char *rings;
    size_t rings_bytes;
    uint32_t ring_count;
    uint32_t tables; /* Table frames that fake_expect has passed over or returned */
    int last_fd;     /* that came with the last frame; closed at the next one */
};

/* Connects and sends Hello; does not wait for Welcome. uuid_seed makes the uuid. */
void fake_connect(struct fake_guest *guest, const char *path);
void fake_hello(struct fake_guest *guest, const char *name, uint32_t uuid_seed);
/* Both, and Welcome. */
void fake_attach(struct fake_guest *guest, const char *path, const char *name, uint32_t uuid_seed);
void fake_send(struct fake_guest *guest, const sonde_guest_v1_FromGuest *message, int fd);
void fake_send_raw(struct fake_guest *guest, const void *bytes, size_t len);
/* The next frame; false at the end of the stream, or when nothing came for 5 s. */
bool fake_read(struct fake_guest *guest, sonde_guest_v1_ToGuest *message);
/* Reads on until a frame of that tag comes; fails the test otherwise. */
void fake_expect(struct fake_guest *guest, pb_size_t tag, sonde_guest_v1_ToGuest *message);
/* True when nothing arrives within that time. */
bool fake_is_quiet(struct fake_guest *guest, int timeout_ms);
/* Waits up to 5 s for sonded to close the connection. False when it sends something or does not
 * close. */
bool fake_is_disconnected(struct fake_guest *guest);

void fake_make_rings(struct fake_guest *guest, uint32_t count);
void fake_send_rings(struct fake_guest *guest);
/* Our own executable mappings, in parts. */
void fake_send_maps(struct fake_guest *guest, uint64_t generation);
void fake_send_state(struct fake_guest *guest, uint32_t sequence, bool running, const char *clock);

/* Waits for CpuConfig with a period, answers with rings (the first time), maps, tables, CpuState.
 * Returns the config. */
sonde_guest_v1_CpuConfig fake_start(struct fake_guest *guest);
/* Waits for period 0 and confirms it. */
void fake_stop(struct fake_guest *guest);

/* Records; false when the ring is full (which is counted as the guest does). */
bool fake_push_sample(struct fake_guest *guest, uint32_t tid, uint64_t weight_ns,
                      const uint64_t *pcs, uint16_t depth);
struct fake_sample {
    uint32_t tid, generation, label;
    uint64_t weight_ns, request;
    uint64_t blocked_until_ns; /* not 0: a BLOCKED record of that time */
    uint8_t end;
    uint16_t gap_at;
};
bool fake_push(struct fake_guest *guest, const struct fake_sample *sample, const uint64_t *pcs,
               uint16_t depth);
bool fake_push_thread(struct fake_guest *guest, uint32_t tid, const char *name, uint32_t label,
                      const char *text);
bool fake_push_unseen(struct fake_guest *guest, uint32_t tid, uint64_t cpu_ns, uint32_t cause);
/* Waits until sonded has read all of it. */
void fake_wait_drained(struct fake_guest *guest);

/* An account, and what the handlers took so far. */
void fake_send_account(struct fake_guest *guest, uint64_t guest_cpu_ns, uint64_t handler_ns,
                       uint64_t handler_count);

void fake_close(struct fake_guest *guest);

#endif
