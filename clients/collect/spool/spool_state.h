/* SPDX-License-Identifier: Apache-2.0
 *
 * What the spool's files share. Internal to the spool. */
#ifndef SONDE_CLIENTS_COLLECT_SPOOL_SPOOL_STATE_H
#define SONDE_CLIENTS_COLLECT_SPOOL_SPOOL_STATE_H

#include "clients/collect/spool/spool.h"

#include <inttypes.h>
#include <pthread.h>

#define SPOOL_NAME_FORMAT "%016" PRIu64 ".spool"

struct waiting {
    struct waiting *next;
    struct spool_entry entry; /* bytes follow the struct */
    void (*on_durable)(void *context, bool is_durable);
    void *context;
};

/* A sealed segment. */
struct sealed {
    struct sealed *next;
    uint64_t number, bytes;
    int64_t unix_ns; /* when it was begun */
    bool is_taken;
};

struct spool {
    struct spool_options options;
    char *path;
    int lock_fd, dir_fd;
    pthread_t thread;
    bool has_thread;
    /* The writer's. */
    int fd;                     /* of the open segment; -1 = none */
    struct ZSTD_CCtx_s *packer; /* its */
    uint64_t number, file_bytes, raw_bytes;
    int64_t begun_ms, begun_unix_ns;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct waiting *first, **last;
    size_t waiting_bytes;
    struct sealed *sealed; /* by number */
    uint64_t bytes;        /* of all segments */
    int64_t open_unix_ns;  /* of the open segment; 0 = none */
    bool is_closing, is_awake;
    uint32_t damaged;
    uint64_t damaged_bytes;
    char trouble[256];
};

void spool_name(uint64_t number, char name[32]);
/* Returns the oldest segment that is not taken, or NULL. Call it with the lock held. */
struct sealed *spool_next_sealed(const struct spool *spool);

#endif
