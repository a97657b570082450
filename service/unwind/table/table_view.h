/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables mapped into this process, once per file, however many processes use the file. Any
 * thread; reference-counted. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_VIEW_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_VIEW_H

#include "service/unwind/table/table_cache.h"

struct unwind_view {
    const void *image; /* checked */
    size_t bytes;
};

struct unwind_views; /* the views of one cache */

struct unwind_views *unwind_views_create(struct unwind_cache *cache); /* NULL when out of memory */
/* When no view is held any more. */
void unwind_views_destroy(struct unwind_views *views);
/* Gets the view of a file as unwind_cache_get does, and may build its table: call it on a worker.
 * The caller releases *view. */
SONDE_MUST_USE sonde_err unwind_views_get(struct unwind_views *views, const char *identity, int fd,
                                          int debug_fd, struct sonde_diag *diag,
                                          const struct unwind_view **view);
SONDE_MUST_USE sonde_err unwind_views_get_memory(struct unwind_views *views, const char *identity,
                                                 const void *base, size_t size,
                                                 struct sonde_diag *diag,
                                                 const struct unwind_view **view);
/* The last release unmaps the table; view may be NULL. */
void unwind_views_release(struct unwind_views *views, const struct unwind_view *view);
/* Bytes of all mapped tables. */
size_t unwind_views_bytes(struct unwind_views *views);

#endif
