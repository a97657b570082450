/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved captures: one file each in a folder (0700) of the data directory. The folder is bounded by
 * count and by bytes; the oldest files are removed first, and the newest is never removed. A file
 * is written under a temporary name, synced, and then linked under its number, so listed files are
 * always complete. Numbers only grow, across restarts, too.
 *
 *     sondecap | length (4 bytes, big-endian) | sonde.v1.Capture, packed | gzip pprof | time bins
 *
 * The time bins are a gzip member, too (api/profile/timeline.h). An older sonded reads them as a
 * field of the pprof file that it skips.
 *
 * Thread safety: the loop's thread, except saved_capture_write, saved_capture_read and
 * saved_capture_parse, which workers call. */
#ifndef SONDE_SERVICE_RPC_SAVED_SAVED_CAPTURES_H
#define SONDE_SERVICE_RPC_SAVED_SAVED_CAPTURES_H

#include "api/profile/timeline.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct saved_captures;

struct saved_captures_options {
    const char *dir; /* NULL = captures cannot be saved; its parent must exist */
    uint32_t count;  /* 1.. */
    uint64_t bytes;
};

/* Reads the captures that an earlier sonded saved and removes incomplete or damaged files. If the
 * folder cannot be created, adding a capture fails later and gives the reason. NULL when out of
 * memory. */
struct saved_captures *saved_captures_open(const struct saved_captures_options *options);
void saved_captures_close(struct saved_captures *saved);

/* A written file that has no number yet. Zeroed = none. */
struct saved_capture_draft {
    char *path;
    Sonde__V1__Capture *metadata;
    uint64_t bytes;
};

/* Writes a file (ignores metadata->id, sets size_bytes); leaves nothing behind on failure. Worker.
 * SONDE_NOT_AVAILABLE (no folder), SONDE_TOO_LARGE, SONDE_IO. */
SONDE_MUST_USE sonde_err saved_capture_write(struct saved_captures *saved,
                                             const struct sonde_profile *profile,
                                             const Sonde__V1__Capture *metadata,
                                             struct saved_capture_draft *draft,
                                             struct sonde_diag *diag);
/* Removes a file that has not been added. */
void saved_capture_draft_drop(struct saved_capture_draft *draft);
/* Takes the draft, gives it the next number and removes the oldest captures past the bounds.
 * *capture is valid until the next saved_captures_add. */
SONDE_MUST_USE sonde_err saved_captures_add(struct saved_captures *saved,
                                            struct saved_capture_draft *draft,
                                            const Sonde__V1__Capture **capture,
                                            struct sonde_diag *diag);

/* Oldest first; valid until the next saved_captures_add. */
Sonde__V1__Capture *const *saved_captures_list(const struct saved_captures *saved, size_t *count);
const Sonde__V1__Capture *saved_captures_find(const struct saved_captures *saved, uint64_t id);
/* The capture with the same process, kind, start and duration: a session's result that was fetched
 * before. */
const Sonde__V1__Capture *saved_captures_find_equal(const struct saved_captures *saved,
                                                    const Sonde__V1__Capture *metadata);

/* Opens a capture's file, which stays readable even if the capture is removed. SONDE_NOT_FOUND. */
SONDE_MUST_USE sonde_err saved_captures_open_file(const struct saved_captures *saved, uint64_t id,
                                                  int *fd, struct sonde_diag *diag);
/* Worker. SONDE_CORRUPT, SONDE_IO. */
SONDE_MUST_USE sonde_err saved_capture_read(int fd, struct sonde_profile **profile,
                                            struct sonde_diag *diag);

/* The same with the profile's timeline. SONDE_NOT_AVAILABLE if the capture has none. */
SONDE_MUST_USE sonde_err saved_capture_read_timeline(int fd, struct sonde_profile **profile,
                                                     struct sonde_diag *diag);
/* The same for a part of the capture's time; {0, 0} is all of it and needs no timeline. */
SONDE_MUST_USE sonde_err saved_capture_read_range(int fd, struct sonde_timeline_range range,
                                                  struct sonde_profile **profile,
                                                  struct sonde_diag *diag);

/* Splits a file into its parts. The caller frees the metadata with
 * sonde__v1__capture__free_unpacked. SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err saved_capture_parse(struct sonde_slice file, Sonde__V1__Capture **metadata,
                                             struct sonde_slice *profile);
/* Splits the time bins off the end of the profile. SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err saved_capture_split(const Sonde__V1__Capture *metadata,
                                             struct sonde_slice *profile,
                                             struct sonde_slice *timeline);

#endif
