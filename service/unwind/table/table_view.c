/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of views under one lock. Tables are fetched and mapped without the lock: if two threads
 * map the same one, the second unmaps its own. */
#include "service/unwind/table/table_view.h"

#include "api/os/shared_memory.h"
#include "service/locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct entry {
    struct unwind_view view; /* first: callers hold a pointer to it */
    struct entry *next;
    uint32_t references;
    char identity[UNWIND_CACHE_IDENTITY + 1];
};

struct unwind_views {
    struct unwind_cache *cache;
    struct lock lock;
    struct entry *entries;
    size_t bytes;
};

struct unwind_views *unwind_views_create(struct unwind_cache *cache) {
    struct unwind_views *views = calloc(1, sizeof *views);
    if (!views)
        return NULL;
    views->cache = cache;
    lock_init(&views->lock, LOCK_UNWIND_VIEWS);
    return views;
}

static void entry_destroy(struct entry *entry) {
    if (!entry)
        return;
    if (entry->view.image)
        munmap((void *)entry->view.image, entry->view.bytes);
    free(entry);
}

void unwind_views_destroy(struct unwind_views *views) {
    if (!views)
        return;
    while (views->entries) {
        struct entry *entry = views->entries;
        views->entries = entry->next;
        entry_destroy(entry);
    }
    lock_finish(&views->lock);
    free(views);
}

/* With the lock held. Returns the view with a reference for the caller; NULL if there is none. */
static const struct unwind_view *find(struct unwind_views *views, const char *identity) {
    for (struct entry *entry = views->entries; entry; entry = entry->next) {
        if (strcmp(entry->identity, identity) != 0)
            continue;
        entry->references++;
        return &entry->view;
    }
    return NULL;
}

static const struct unwind_view *get_existing(struct unwind_views *views, const char *identity) {
    lock_take(&views->lock);
    const struct unwind_view *found = find(views, identity);
    lock_drop(&views->lock);
    return found;
}

/* Closes memfd. */
static sonde_err map_table(const char *identity, int memfd, size_t bytes, struct sonde_diag *diag,
                           struct entry **entry) {
    sonde_err err = SONDE_OK;
    struct entry *made = calloc(1, sizeof *made);
    const void *image = made ? shared_memory_map(memfd, bytes) : NULL;
    if (!made)
        err = SONDE_OUT_OF_MEMORY;
    else if (!image)
        err = sonde_fail_os(diag, errno, "cannot map an unwind table");
    close(memfd);
    if (err) {
        free(made);
        return err;
    }
    made->view = (struct unwind_view){image, bytes};
    memcpy(made->identity, identity, strlen(identity) + 1); /* the cache has checked its length */
    *entry = made;
    return SONDE_OK;
}

/* Adds the entry, unless another thread has added one meanwhile. */
static const struct unwind_view *add(struct unwind_views *views, struct entry *entry) {
    lock_take(&views->lock);
    const struct unwind_view *view = find(views, entry->identity);
    if (!view) {
        entry->references = 1;
        entry->next = views->entries;
        views->entries = entry;
        views->bytes += entry->view.bytes;
        view = &entry->view;
        entry = NULL;
    }
    lock_drop(&views->lock);
    entry_destroy(entry);
    return view;
}

static sonde_err finish_get(struct unwind_views *views, const char *identity, int memfd,
                            size_t bytes, struct sonde_diag *diag,
                            const struct unwind_view **view) {
    struct entry *entry;
    sonde_err err = map_table(identity, memfd, bytes, diag, &entry);
    if (!err)
        *view = add(views, entry);
    return err;
}

sonde_err unwind_views_get(struct unwind_views *views, const char *identity, int fd, int debug_fd,
                           struct sonde_diag *diag, const struct unwind_view **view) {
    int memfd;
    size_t bytes;
    *view = get_existing(views, identity);
    if (*view)
        return SONDE_OK;
    sonde_err err = unwind_cache_get(views->cache, identity, fd, debug_fd, diag, &memfd, &bytes);
    return err ? err : finish_get(views, identity, memfd, bytes, diag, view);
}

sonde_err unwind_views_get_memory(struct unwind_views *views, const char *identity,
                                  const void *base, size_t size, struct sonde_diag *diag,
                                  const struct unwind_view **view) {
    int memfd;
    size_t bytes;
    *view = get_existing(views, identity);
    if (*view)
        return SONDE_OK;
    sonde_err err =
        unwind_cache_get_memory(views->cache, identity, base, size, diag, &memfd, &bytes);
    return err ? err : finish_get(views, identity, memfd, bytes, diag, view);
}

void unwind_views_release(struct unwind_views *views, const struct unwind_view *view) {
    struct entry *gone = NULL;
    if (!view)
        return;
    lock_take(&views->lock);
    for (struct entry **at = &views->entries; *at; at = &(*at)->next) {
        if (&(*at)->view != view)
            continue;
        if (--(*at)->references == 0) {
            gone = *at;
            *at = gone->next;
            views->bytes -= gone->view.bytes;
        }
        break;
    }
    lock_drop(&views->lock);
    entry_destroy(gone);
}

size_t unwind_views_bytes(struct unwind_views *views) {
    lock_take(&views->lock);
    size_t bytes = views->bytes;
    lock_drop(&views->lock);
    return bytes;
}
