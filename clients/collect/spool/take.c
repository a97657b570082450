/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool's sealed segments: read back, and deleted or set aside. */
#include "api/base/clock.h"
#include "clients/collect/spool/segment.h"
#include "clients/collect/spool/spool_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILE_BYTES (256u << 20)
#define MAX_DAMAGED    16 /* files that are kept */

/* What spool_take gives. */
struct taken {
    struct spool_segment segment;
    struct sonde_arena arena;
    bool is_whole;
};

struct sealed *spool_next_sealed(const struct spool *spool) {
    struct sealed *sealed = spool->sealed;
    while (sealed && sealed->is_taken)
        sealed = sealed->next;
    return sealed;
}

static bool read_file(struct spool *spool, uint64_t number, struct sonde_buf *out) {
    char name[32], bytes[65536];
    ssize_t got = -1;
    spool_name(number, name);
    out->limit = MAX_FILE_BYTES;
    int fd = openat(spool->dir_fd, name, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0)
        sonde_buf_append(out, bytes, (size_t)got);
    if (fd >= 0)
        close(fd);
    return got == 0 && !out->failed;
}

static struct spool_segment *load(struct spool *spool, uint64_t number) {
    struct taken *taken = calloc(1, sizeof *taken);
    struct sonde_buf file = {0};
    if (!taken)
        return NULL;
    taken->segment.number = number;
    bool is_read = read_file(spool, number, &file);
    bool is_good =
        segment_parse(sonde_buf_slice(&file), &taken->arena, &taken->segment, &taken->is_whole);
    taken->is_whole = taken->is_whole && is_read;
    sonde_buf_finish(&file);
    if (is_good)
        return &taken->segment;
    sonde_arena_finish(&taken->arena);
    free(taken);
    return NULL;
}

struct spool_segment *spool_take(struct spool *spool, uint32_t wait_ms) {
    const struct timespec until = clock_wait_end(wait_ms);
    int failed = 0;
    pthread_mutex_lock(&spool->lock);
    while (!spool_next_sealed(spool) && !spool->is_awake && !failed)
        failed = pthread_cond_clockwait(&spool->changed, &spool->lock, CLOCK_MONOTONIC, &until);
    struct sealed *sealed = spool_next_sealed(spool);
    uint64_t number = sealed ? sealed->number : 0;
    if (sealed)
        sealed->is_taken = true;
    pthread_mutex_unlock(&spool->lock);
    struct spool_segment *segment = sealed ? load(spool, number) : NULL;
    if (sealed && !segment) { /* out of memory: later */
        pthread_mutex_lock(&spool->lock);
        sealed->is_taken = false;
        pthread_mutex_unlock(&spool->lock);
    }
    return segment;
}

static void free_taken(struct taken *taken) {
    sonde_arena_finish(&taken->arena);
    free(taken);
}

/* Deletes the oldest of the damaged files beyond the limit. */
static void trim_damaged(int fd) {
    uint64_t oldest = 0;
    int count = 0;
    char name[32];
    DIR *folder = fdopendir(fd);
    for (struct dirent *item = folder ? readdir(folder) : NULL; item; item = readdir(folder)) {
        uint64_t number;
        if (sscanf(item->d_name, "%16" SCNu64 ".spool", &number) != 1)
            continue;
        oldest = count == 0 || number < oldest ? number : oldest;
        count++;
    }
    spool_name(oldest, name);
    if (count > MAX_DAMAGED)
        unlinkat(fd, name, 0);
    if (folder)
        closedir(folder);
    else if (fd >= 0)
        close(fd);
}

static void set_aside(struct spool *spool, uint64_t number, uint64_t bytes) {
    char name[32], aside[48], line[128];
    spool_name(number, name);
    snprintf(aside, sizeof aside, "damaged/%s", name);
    (void)mkdirat(spool->dir_fd, "damaged", 0700);
    if (renameat(spool->dir_fd, name, spool->dir_fd, aside) != 0)
        unlinkat(spool->dir_fd, name, 0);
    trim_damaged(openat(spool->dir_fd, "damaged", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    pthread_mutex_lock(&spool->lock);
    spool->damaged++;
    spool->damaged_bytes += bytes;
    pthread_mutex_unlock(&spool->lock);
    snprintf(line, sizeof line,
             "a damaged file of the spool was moved to %s; its whole entries "
             "were delivered",
             aside);
    if (spool->options.log)
        spool->options.log(line);
}

void spool_done(struct spool *spool, struct spool_segment *segment) {
    struct taken *taken = (struct taken *)segment;
    uint64_t number = segment->number, bytes = 0;
    bool is_whole = taken->is_whole;
    char name[32];
    spool_name(number, name);
    pthread_mutex_lock(&spool->lock);
    for (struct sealed **at = &spool->sealed; *at; at = &(*at)->next) {
        struct sealed *sealed = *at;
        if (sealed->number != number)
            continue;
        bytes = sealed->bytes;
        spool->bytes -= bytes;
        *at = sealed->next;
        free(sealed);
        break;
    }
    if (strncmp(spool->trouble, "the spool is full", 17) == 0)
        spool->trouble[0] = 0;
    pthread_mutex_unlock(&spool->lock);
    if (is_whole)
        unlinkat(spool->dir_fd, name, 0);
    else
        set_aside(spool, number, bytes);
    free_taken(taken);
}

void spool_put_back(struct spool *spool, struct spool_segment *segment) {
    pthread_mutex_lock(&spool->lock);
    for (struct sealed *sealed = spool->sealed; sealed; sealed = sealed->next)
        if (sealed->number == segment->number)
            sealed->is_taken = false;
    pthread_mutex_unlock(&spool->lock);
    free_taken((struct taken *)segment);
}

void spool_wake(struct spool *spool) {
    pthread_mutex_lock(&spool->lock);
    spool->is_awake = true;
    pthread_cond_broadcast(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
}

void spool_state(struct spool *spool, struct spool_state *state) {
    pthread_mutex_lock(&spool->lock);
    *state = (struct spool_state){.bytes = spool->bytes,
                                  .limit_bytes = spool->options.limit_bytes,
                                  .damaged_segments = spool->damaged,
                                  .damaged_bytes = spool->damaged_bytes,
                                  .oldest_unix_ns =
                                      spool->sealed ? spool->sealed->unix_ns : spool->open_unix_ns};
    for (const struct sealed *sealed = spool->sealed; sealed; sealed = sealed->next)
        state->segments++;
    state->segments += spool->open_unix_ns != 0;
    memcpy(state->trouble, spool->trouble, sizeof state->trouble);
    pthread_mutex_unlock(&spool->lock);
}
