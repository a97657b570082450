/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of struct target that a target with a guest has in addition (target->guest): the
 * connection, the rings, and the unwind tables that the guest gets. Thread safety: engine thread
 * only. */
#ifndef SONDE_SERVICE_ENGINE_GUEST_GUEST_LINK_H
#define SONDE_SERVICE_ENGINE_GUEST_GUEST_LINK_H

#include "service/engine/core/target.h"
#include "service/engine/guest/drain.h"
#include "service/engine/guest/guest_frames.h"

/* A frame to be sent to the guest, with a descriptor or -1. */
struct outgoing {
    struct outgoing *next;
    int fd;
    size_t len, sent;
    char bytes[FRAMES_TO_BYTES];
};

struct guest_link {
    int fd; /* -1 = closed */
    struct frames frames;
    struct outgoing *first, **last;
    uint32_t outgoing_count;
    uint64_t turn_end_ns; /* thread_cpu_ns at which to pause reading frames; 0 = never */
    bool is_broken;       /* disconnect at the end of this event */
    bool is_writing;      /* epoll reports EPOLLOUT, too */
    bool has_hello;
    uint64_t hello_deadline_ns;

    int64_t clock_ahead_ns; /* the guest's CLOCK_MONOTONIC minus ours: a time namespace */
    struct drain drain;
    void *rings; /* mapped memory, NULL = none yet */
    size_t rings_bytes;
    uint64_t unmap_ns;        /* when their pages are unmapped next */
    struct drain_counts seen; /* the rings' counters at the last drain */
    uint64_t account_seen_ns; /* guest_cpu_ns of the last CpuAccount */
    uint64_t control_seen_ns; /* its control_cpu_ns */

    struct proc_maps *maps; /* a copy for those who open the newest generation; NULL = none */
    uint64_t opened_to;     /* start of the mapping that was given to workers last */
    uint32_t opening;       /* mappings that workers are opening; at most TABLES_MAX_OPENING */
};

/* --- link.c */

/* Accepts guests, and creates a target for each. */
void link_accept(struct engine *engine);
/* Creates a target for a connection. Takes fd, unless it returns NULL. */
struct target *link_create_target(struct engine *engine, int fd);
/* Sends a frame; takes fd (-1 = none). If the frame cannot be queued, the link is marked broken. */
void link_send(struct target *target, const frames_to_guest *message, int fd);
void link_refuse(struct target *target, const char *reason);
void link_read(struct target *target, frames_on_message *on_message);
void link_write(struct target *target);
void link_close(struct target *target);

/* --- listen.c */

SONDE_MUST_USE sonde_err listen_open(const char *path, bool for_everybody, int *listen_fd,
                                     int *lock_fd, struct sonde_diag *diag);
void listen_close(const char *path, int listen_fd, int lock_fd);

/* --- unwind_tables.c: workers open mappings and compile their tables, of one target at most this
 * many at a time. */
#define TABLES_MAX_OPENING 64u
void tables_begin(struct target *target, struct generation *generation);

/* --- rings.c: the guest's rings */

SONDE_MUST_USE sonde_err guest_rings_map(struct target *target, int fd, struct sonde_diag *diag);
void guest_rings_unmap(struct target *target);
/* Ops of the guest_source. */
bool guest_rings_drain(struct target *target, uint64_t now_ns, uint64_t budget);
void guest_rings_drain_all(struct target *target, uint64_t now_ns);
extern const struct source_ops guest_source;

#endif
