/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread writes: it takes all entries that wait, appends them to the open segment, syncs once
 * and reports them. If writing fails, the file is cut back to what was synced before and sealed,
 * because the next entry would refer to those that were cut off. They are reported as not
 * stored. */
#include "clients/collect/spool/spool.h"

#include "api/base/clock.h"
#include "clients/collect/spool/segment.h"
#include "clients/collect/spool/spool_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_WAITING_BYTES (32u << 20) /* of entries that are not written yet */

static void set_trouble(struct spool *spool, const char *text) {
    pthread_mutex_lock(&spool->lock);
    bool is_new = strcmp(spool->trouble, text) != 0;
    snprintf(spool->trouble, sizeof spool->trouble, "%s", text);
    pthread_mutex_unlock(&spool->lock);
    if (is_new && spool->options.log)
        spool->options.log(text[0] ? text : "the spool can be written again");
}

/* ---- Segments on disk ---- */

void spool_name(uint64_t number, char name[32]) {
    snprintf(name, 32, SPOOL_NAME_FORMAT, number);
}

/* With the lock held: in the order of numbers. */
static bool add_sealed(struct spool *spool, uint64_t number, uint64_t bytes, int64_t unix_ns) {
    struct sealed *sealed = calloc(1, sizeof *sealed), **at = &spool->sealed;
    if (!sealed)
        return false;
    *sealed = (struct sealed){.number = number, .bytes = bytes, .unix_ns = unix_ns};
    while (*at && (*at)->number < number)
        at = &(*at)->next;
    sealed->next = *at;
    *at = sealed;
    return true;
}

static sonde_err find_segments(struct spool *spool, struct sonde_diag *diag) {
    DIR *folder = fdopendir(openat(spool->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    sonde_err err = SONDE_OK;
    if (!folder)
        return sonde_fail_os(diag, errno, "%s cannot be listed", spool->path);
    for (struct dirent *item = readdir(folder); item && !err; item = readdir(folder)) {
        uint64_t number;
        struct stat info;
        int end = 0;
        if (sscanf(item->d_name, "%16" SCNu64 ".spool%n", &number, &end) != 1 || end == 0 ||
            item->d_name[end] || fstatat(spool->dir_fd, item->d_name, &info, 0) != 0)
            continue;
        if (!add_sealed(spool, number, (uint64_t)info.st_size,
                        (int64_t)info.st_mtim.tv_sec * 1000000000))
            err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the spool");
        spool->bytes += (uint64_t)info.st_size;
        spool->number = number >= spool->number ? number + 1 : spool->number;
    }
    closedir(folder);
    return err;
}

static bool write_all(int fd, const char *data, size_t len) {
    while (len > 0) {
        ssize_t written = write(fd, data, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        len -= (size_t)written;
    }
    return true;
}

/* The name of a new file is durable before anything in it is. */
static bool begin_segment(struct spool *spool) {
    char name[32];
    errno = ENOMEM;
    if (!segment_begin(&spool->packer))
        return false;
    spool_name(spool->number, name);
    spool->fd = openat(spool->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (spool->fd < 0)
        return false;
    if (!write_all(spool->fd, SEGMENT_MAGIC, SEGMENT_MAGIC_LEN) || fsync(spool->dir_fd) != 0) {
        int error = errno;
        close(spool->fd);
        spool->fd = -1;
        unlinkat(spool->dir_fd, name, 0);
        errno = error;
        return false;
    }
    spool->file_bytes = SEGMENT_MAGIC_LEN;
    spool->raw_bytes = 0;
    spool->begun_ms = clock_ns(CLOCK_MONOTONIC) / 1000000;
    spool->begun_unix_ns = clock_ns(CLOCK_REALTIME);
    return true;
}

static void seal(struct spool *spool) {
    if (spool->fd < 0)
        return;
    close(spool->fd);
    spool->fd = -1;
    pthread_mutex_lock(&spool->lock);
    if (!add_sealed(spool, spool->number, spool->file_bytes, spool->begun_unix_ns))
        snprintf(spool->trouble, sizeof spool->trouble,
                 "no memory: a segment is delivered after the next start");
    spool->open_unix_ns = 0;
    pthread_cond_broadcast(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
    spool->number++;
}

/* Appends and syncs; errno says why not. */
static bool append(struct spool *spool, const struct sonde_buf *blocks, size_t raw) {
    if (!write_all(spool->fd, blocks->data, blocks->len) || fdatasync(spool->fd) != 0)
        return false;
    pthread_mutex_lock(&spool->lock);
    spool->bytes += blocks->len + (spool->open_unix_ns ? 0 : SEGMENT_MAGIC_LEN);
    spool->open_unix_ns = spool->begun_unix_ns;
    pthread_mutex_unlock(&spool->lock);
    spool->file_bytes += blocks->len;
    spool->raw_bytes += raw;
    return true;
}

/* Ends the open segment with what was synced; keeps errno. */
static void cut_back(struct spool *spool) {
    int error = errno;
    char name[32];
    if (spool->fd >= 0 && spool->raw_bytes == 0 && spool->open_unix_ns == 0) {
        close(spool->fd);
        spool->fd = -1;
        spool_name(spool->number, name);
        unlinkat(spool->dir_fd, name, 0);
    } else if (spool->fd >= 0) {
        if (ftruncate(spool->fd, (off_t)spool->file_bytes) != 0)
            error = error ? error : errno; /* its end is not whole, which the reader sees */
        seal(spool);
    }
    errno = error;
}

/* ---- The writer ---- */

static void report(struct waiting *list, bool is_durable) {
    for (struct waiting *next; list; list = next) {
        next = list->next;
        list->on_durable(list->context, is_durable);
        free(list);
    }
}

static void write_list(struct spool *spool, struct waiting *list) {
    struct sonde_buf blocks = {0};
    size_t raw = 0;
    bool is_good = spool->fd >= 0 || begin_segment(spool);
    char text[256];
    for (const struct waiting *at = list; at && is_good; at = at->next) {
        errno = ENOMEM;
        is_good = segment_add_block(spool->packer, &blocks, &at->entry, clock_ns(CLOCK_REALTIME));
        raw += at->entry.bytes.len;
    }
    is_good = is_good && append(spool, &blocks, raw);
    if (!is_good)
        cut_back(spool);
    if (!is_good)
        snprintf(text, sizeof text,
                 "the spool in %.120s cannot be written: %s; make room or mend the disk",
                 spool->path, strerror(errno));
    sonde_buf_finish(&blocks);
    set_trouble(spool, is_good ? "" : text);
    report(list, is_good);
}

static bool has_sealed(struct spool *spool) {
    pthread_mutex_lock(&spool->lock);
    bool has = spool_next_sealed(spool) != NULL;
    pthread_mutex_unlock(&spool->lock);
    return has;
}

static bool is_seal_due(struct spool *spool) {
    if (spool->fd < 0 || spool->raw_bytes >= SPOOL_SEGMENT_BYTES)
        return spool->fd >= 0;
    return clock_ns(CLOCK_MONOTONIC) / 1000000 - spool->begun_ms >= SPOOL_SEAL_MS &&
           !has_sealed(spool);
}

static struct waiting *take_waiting(struct spool *spool, bool *is_closing) {
    const struct timespec until = clock_wait_end(SPOOL_SYNC_MS);
    int failed = 0;
    pthread_mutex_lock(&spool->lock);
    while (!spool->is_closing && !failed)
        failed = pthread_cond_clockwait(&spool->changed, &spool->lock, CLOCK_MONOTONIC, &until);
    struct waiting *list = spool->first;
    spool->first = NULL;
    spool->last = &spool->first;
    spool->waiting_bytes = 0;
    *is_closing = spool->is_closing;
    pthread_mutex_unlock(&spool->lock);
    return list;
}

static void *run(void *context) {
    struct spool *spool = context;
    bool is_closing = false;
    pthread_setname_np(pthread_self(), "spool");
    while (!is_closing) {
        struct waiting *list = take_waiting(spool, &is_closing);
        if (list)
            write_list(spool, list);
        if (is_closing || is_seal_due(spool))
            seal(spool);
    }
    return NULL;
}

/* ---- Life ---- */

static sonde_err open_folder(struct spool *spool, struct sonde_diag *diag) {
    if (mkdir(spool->path, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "%s cannot be created", spool->path);
    spool->dir_fd = open(spool->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (spool->dir_fd < 0)
        return sonde_fail_os(diag, errno, "%s cannot be opened", spool->path);
    spool->lock_fd = openat(spool->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (spool->lock_fd < 0)
        return sonde_fail_os(diag, errno, "%s/lock cannot be opened", spool->path);
    if (flock(spool->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "another process uses the spool %.200s; give each its own --spool",
                          spool->path);
    return SONDE_OK;
}

sonde_err spool_open(const struct spool_options *options, struct spool **opened,
                     struct sonde_diag *diag) {
    struct spool *spool = calloc(1, sizeof *spool);
    *opened = NULL;
    if (!spool || !(spool->path = strdup(options->dir))) {
        free(spool);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the spool");
    }
    spool->options = *options;
    if (!options->limit_bytes)
        spool->options.limit_bytes = SPOOL_LIMIT_BYTES;
    spool->fd = spool->lock_fd = spool->dir_fd = -1;
    spool->number = 1;
    spool->last = &spool->first;
    pthread_mutex_init(&spool->lock, NULL);
    pthread_cond_init(&spool->changed, NULL);
    sonde_err err = open_folder(spool, diag);
    if (!err)
        err = find_segments(spool, diag);
    if (!err) {
        spool->has_thread = pthread_create(&spool->thread, NULL, run, spool) == 0;
        if (!spool->has_thread)
            err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "the spool's thread cannot be started");
    }
    if (err)
        spool_close(spool);
    else
        *opened = spool;
    return err;
}

void spool_close(struct spool *spool) {
    if (!spool)
        return;
    pthread_mutex_lock(&spool->lock);
    spool->is_closing = true;
    pthread_cond_broadcast(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
    if (spool->has_thread)
        pthread_join(spool->thread, NULL);
    for (struct sealed *sealed = spool->sealed, *next; sealed; sealed = next) {
        next = sealed->next;
        free(sealed);
    }
    segment_packer_destroy(spool->packer);
    if (spool->lock_fd >= 0)
        close(spool->lock_fd);
    if (spool->dir_fd >= 0)
        close(spool->dir_fd);
    pthread_mutex_destroy(&spool->lock);
    pthread_cond_destroy(&spool->changed);
    free(spool->path);
    free(spool);
}

/* ---- Adding ---- */

sonde_err spool_add(struct spool *spool, const struct spool_entry *entry,
                    void (*on_durable)(void *context, bool is_durable), void *context,
                    struct sonde_diag *diag) {
    size_t len = entry->bytes.len;
    sonde_err err = SONDE_OK;
    if (len > SPOOL_MAX_ENTRY)
        return sonde_fail(diag, SONDE_TOO_LARGE, "an entry of %zu bytes does not fit; at most %u",
                          len, SPOOL_MAX_ENTRY);
    struct waiting *waiting = malloc(sizeof *waiting + len);
    if (!waiting)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for an entry of the spool");
    memcpy(waiting + 1, entry->bytes.data, len);
    *waiting = (struct waiting){.entry = *entry, .on_durable = on_durable, .context = context};
    waiting->entry.bytes.data = (const char *)(waiting + 1);
    pthread_mutex_lock(&spool->lock);
    bool is_full = spool->bytes + spool->waiting_bytes + len > spool->options.limit_bytes;
    if (spool->is_closing || is_full || spool->waiting_bytes + len > MAX_WAITING_BYTES) {
        err = SONDE_UNAVAILABLE;
    } else {
        *spool->last = waiting;
        spool->last = &waiting->next;
        spool->waiting_bytes += len;
    }
    if (is_full && !spool->trouble[0])
        snprintf(spool->trouble, sizeof spool->trouble,
                 "the spool is full (%" PRIu64 " MiB): hosts keep their windows until the store "
                 "has taken some",
                 spool->options.limit_bytes >> 20);
    pthread_mutex_unlock(&spool->lock);
    if (err)
        free(waiting);
    return err ? sonde_fail(diag, err, "the spool is full") : SONDE_OK;
}
