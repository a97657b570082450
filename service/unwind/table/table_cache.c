/* SPDX-License-Identifier: Apache-2.0
 *
 * One list of entries, most recently used first, under one lock. The first thread that asks for an
 * entry builds it, without the lock; later ones hold a reference and wait until it is built. A
 * failed entry leaves the list at once, so that the next request tries again. */
#include "service/unwind/table/table_cache.h"

#include "service/locks.h"
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_cache_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum state { BUILDING, READY, FAILED };

struct entry {
    struct entry *next;
    char identity[UNWIND_CACHE_IDENTITY + 1];
    enum state state;
    uint32_t references; /* gets that use it now */
    int memfd;
    size_t bytes;
    sonde_err err; /* FAILED */
    struct sonde_diag diag;
};

struct unwind_cache {
    struct lock lock;
    pthread_cond_t built; /* an entry is no longer BUILDING */
    struct entry *entries;
    struct unwind_cache_counters counters;
    int dir_fd; /* -1 = none */
    uint64_t limit;
    struct lock disk_lock; /* for one trim at a time; never held together with `lock` */
};

/* What to build from. */
struct origin {
    int fd, debug_fd; /* fd -1 = memory, debug_fd -1 = no debug file */
    const void *base;
    size_t size;
};

sonde_err unwind_cache_create(const char *dir, uint64_t limit_bytes, struct unwind_cache **cache,
                              struct sonde_diag *diag) {
    *cache = NULL;
    struct unwind_cache *made = calloc(1, sizeof *made);
    if (!made)
        return SONDE_OUT_OF_MEMORY;
    made->limit = limit_bytes ? limit_bytes : UNWIND_CACHE_LIMIT;
    made->dir_fd = dir ? unwind_disk_open(dir) : -1;
    if (dir && made->dir_fd < 0) {
        int os_error = errno;
        free(made);
        return sonde_fail_os(diag, os_error,
                             "cannot use the directory for unwind tables; choose another data "
                             "directory");
    }
    lock_init(&made->lock, LOCK_UNWIND_CACHE);
    lock_init(&made->disk_lock, LOCK_UNWIND_CACHE);
    pthread_cond_init(&made->built, NULL);
    *cache = made;
    return SONDE_OK;
}

static void entry_destroy(struct entry *entry) {
    if (entry->memfd >= 0)
        close(entry->memfd);
    free(entry);
}

void unwind_cache_destroy(struct unwind_cache *cache) {
    if (!cache)
        return;
    while (cache->entries) {
        struct entry *entry = cache->entries;
        cache->entries = entry->next;
        entry_destroy(entry);
    }
    if (cache->dir_fd >= 0)
        close(cache->dir_fd);
    pthread_cond_destroy(&cache->built);
    lock_finish(&cache->disk_lock);
    lock_finish(&cache->lock);
    free(cache);
}

void unwind_cache_counters(struct unwind_cache *cache, struct unwind_cache_counters *counters) {
    lock_take(&cache->lock);
    *counters = cache->counters;
    lock_drop(&cache->lock);
}

static bool identity_sane(const char *identity) {
    size_t len = 0;
    for (; identity[len]; len++) {
        char c = identity[len];
        bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '-' || c == '_' || (c == '.' && len > 0);
        if (!good || len == UNWIND_CACHE_IDENTITY)
            return false;
    }
    return len > 0;
}

/* Removes the entry of that identity from the list and returns it; NULL if there is none. */
static struct entry *unlink_entry(struct unwind_cache *cache, const char *identity) {
    for (struct entry **at = &cache->entries; *at; at = &(*at)->next) {
        struct entry *entry = *at;
        if (strcmp(entry->identity, identity) != 0)
            continue;
        *at = entry->next;
        return entry;
    }
    return NULL;
}

static void push_front(struct unwind_cache *cache, struct entry *entry) {
    entry->next = cache->entries;
    cache->entries = entry;
}

/* Evicts entries beyond either limit, the least recently used first, except those in use. Whoever
 * builds an entry holds a reference. */
static void evict(struct unwind_cache *cache) {
    size_t count = 0, bytes = 0;
    for (struct entry **at = &cache->entries; *at;) {
        struct entry *entry = *at;
        count++;
        bytes += entry->state == READY ? entry->bytes : 0;
        if ((count > UNWIND_CACHE_ENTRIES || bytes > UNWIND_CACHE_MEMORY) && count > 1 &&
            entry->references == 0) {
            *at = entry->next;
            bytes -= entry->bytes;
            count--;
            entry_destroy(entry);
        } else {
            at = &entry->next;
        }
    }
}

/* Returns a memfd with the table's bytes, sealed against changes, or -1 with errno. */
static int seal(const struct sonde_buf *table) {
    int fd = memfd_create("sonde-unwind", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    size_t done = 0;
    while (done < table->len) {
        ssize_t put = write(fd, table->data + done, table->len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            break;
        done += (size_t)put;
    }
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (done == table->len && fcntl(fd, F_ADD_SEALS, seals) == 0)
        return fd;
    int os_error = errno;
    close(fd);
    errno = os_error;
    return -1;
}

static sonde_err build(const struct origin *origin, struct sonde_buf *table,
                       struct sonde_diag *diag) {
    if (origin->fd < 0)
        return unwind_table_build_memory(origin->base, origin->size, table, diag);
    return origin->debug_fd < 0
               ? unwind_table_build(origin->fd, table, diag)
               : unwind_table_build_with_debug(origin->fd, origin->debug_fd, table, diag);
}

static void store_on_disk(struct unwind_cache *cache, const char *identity,
                          const struct sonde_buf *table) {
    if (cache->dir_fd < 0)
        return;
    lock_take(&cache->disk_lock);
    unwind_disk_store(cache->dir_fd, identity, table);
    unwind_disk_trim(cache->dir_fd, cache->limit);
    lock_drop(&cache->disk_lock);
}

/* Builds the table of an entry, without the lock: while an entry is BUILDING only its builder uses
 * these fields. */
static void fill(struct unwind_cache *cache, struct entry *entry, const struct origin *origin,
                 bool *from_disk, bool *discarded) {
    struct sonde_buf table = {0};
    *discarded = false;
    *from_disk =
        cache->dir_fd >= 0 && unwind_disk_load(cache->dir_fd, entry->identity, &table, discarded);
    if (!*from_disk)
        entry->err = build(origin, &table, &entry->diag);
    if (entry->err == SONDE_OK) {
        entry->memfd = seal(&table);
        entry->bytes = table.len;
        if (entry->memfd < 0)
            entry->err =
                sonde_fail_os(&entry->diag, errno, "cannot create a memfd for an unwind table");
        else if (!*from_disk)
            store_on_disk(cache, entry->identity, &table);
    }
    sonde_buf_finish(&table);
}

/* Returns the entry, at the front of the list and with a reference for the caller. If there was
 * none (*mine), it is BUILDING. */
static struct entry *look_up(struct unwind_cache *cache, const char *identity, bool *mine) {
    struct entry *entry = unlink_entry(cache, identity);
    *mine = !entry;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return NULL;
        memcpy(entry->identity, identity, strlen(identity) + 1);
        entry->memfd = -1;
    }
    entry->references++;
    push_front(cache, entry);
    return entry;
}

static void make(struct unwind_cache *cache, struct entry *entry, const struct origin *origin) {
    bool from_disk, discarded;
    lock_drop(&cache->lock);
    fill(cache, entry, origin, &from_disk, &discarded);
    lock_take(&cache->lock);
    entry->state = entry->err == SONDE_OK ? READY : FAILED;
    cache->counters.discarded += discarded;
    cache->counters.disk_hits += from_disk;
    cache->counters.builds += entry->state == READY && !from_disk;
    cache->counters.failures += entry->state == FAILED;
    if (entry->state == FAILED)
        unlink_entry(cache, entry->identity);
    pthread_cond_broadcast(&cache->built);
}

static sonde_err hand_out(const struct entry *entry, struct sonde_diag *diag, int *memfd,
                          size_t *bytes) {
    if (entry->state == FAILED) {
        if (diag)
            *diag = entry->diag;
        return entry->err;
    }
    *memfd = fcntl(entry->memfd, F_DUPFD_CLOEXEC, 0);
    *bytes = entry->bytes;
    return *memfd >= 0
               ? SONDE_OK
               : sonde_fail_os(diag, errno, "cannot duplicate the descriptor of an unwind table");
}

static sonde_err get(struct unwind_cache *cache, const char *identity, const struct origin *origin,
                     struct sonde_diag *diag, int *memfd, size_t *bytes) {
    bool mine;
    *memfd = -1;
    *bytes = 0;
    if (!identity_sane(identity))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the identity of an unwind table is not a valid name");
    lock_take(&cache->lock);
    struct entry *entry = look_up(cache, identity, &mine);
    if (!entry) {
        lock_drop(&cache->lock);
        return SONDE_OUT_OF_MEMORY;
    }
    if (mine)
        make(cache, entry, origin);
    while (entry->state == BUILDING)
        lock_wait(&cache->lock, &cache->built);
    cache->counters.hits += !mine && entry->state == READY;
    sonde_err err = hand_out(entry, diag, memfd, bytes);
    entry->references--;
    if (entry->state == FAILED && entry->references == 0)
        entry_destroy(entry);
    evict(cache);
    lock_drop(&cache->lock);
    return err;
}

sonde_err unwind_cache_get(struct unwind_cache *cache, const char *identity, int fd, int debug_fd,
                           struct sonde_diag *diag, int *memfd, size_t *bytes) {
    struct origin origin = {.fd = fd, .debug_fd = debug_fd};
    return get(cache, identity, &origin, diag, memfd, bytes);
}

sonde_err unwind_cache_get_memory(struct unwind_cache *cache, const char *identity,
                                  const void *base, size_t size, struct sonde_diag *diag,
                                  int *memfd, size_t *bytes) {
    struct origin origin = {.fd = -1, .debug_fd = -1, .base = base, .size = size};
    return get(cache, identity, &origin, diag, memfd, bytes);
}
