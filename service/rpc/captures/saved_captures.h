/* SPDX-License-Identifier: Apache-2.0
 *
 * The captures that are kept: a folder of the data directory (0700), one file each, bounded by
 * count and by bytes, oldest out first. What is listed is whole: a file is written under another
 * name, made durable and then renamed to its number. Numbers grow, also over restarts: the newest
 * file always stays.
 *
 *     sondecap | length (4 bytes, big-endian) | sonde.v1.Capture, packed | gzip pprof
 *
 * Thread safety: one thread (the loop's) but for saved_capture_write, saved_capture_read and saved_capture_parse, which
 * workers call. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_SAVED_CAPTURES_H
#define SONDE_SERVICE_RPC_CAPTURES_SAVED_CAPTURES_H

#include "api/profile/profile.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct saved_captures;

struct saved_captures_options {
    const char *dir; /* NULL = nothing can be kept; the folder above must exist */
    uint32_t count;  /* 1.. */
    uint64_t bytes;
};

/* Reads what an earlier sonded kept; what it left unfinished or is broken is removed. A folder that
 * cannot be made is no error: adding fails with its reason. NULL when out of memory. */
struct saved_captures *saved_captures_open(const struct saved_captures_options *options);
void saved_captures_close(struct saved_captures *saved);

/* A file that has no number yet. Zeroed = none. */
struct saved_capture_draft {
    char *path;
    Sonde__V1__Capture *metadata;
    uint64_t bytes;
};

/* Worker. Writes a file for facts (whose id is not looked at; size_bytes is set); nothing is left
 * when that fails. SONDE_NOT_AVAILABLE (no folder), SONDE_TOO_LARGE, SONDE_IO. */
SONDE_MUST_USE sonde_err saved_capture_write(struct saved_captures *saved,
                                             const struct sonde_profile *profile,
                                             const Sonde__V1__Capture *metadata,
                                             struct saved_capture_draft *draft,
                                             struct sonde_diag *diag);
/* Removes a file that was not added. */
void saved_capture_draft_drop(struct saved_capture_draft *draft);
/* Gives the draft its number, takes it, and makes room: the oldest go. *capture is valid until the
 * next saved_captures_add. */
SONDE_MUST_USE sonde_err saved_captures_add(struct saved_captures *saved,
                                            struct saved_capture_draft *draft,
                                            const Sonde__V1__Capture **capture,
                                            struct sonde_diag *diag);

/* Oldest first; valid until the next saved_captures_add. */
Sonde__V1__Capture *const *saved_captures_list(const struct saved_captures *saved, size_t *count);
const Sonde__V1__Capture *saved_captures_find(const struct saved_captures *saved, uint64_t id);
/* The capture of the same process with the same kind, start and length: a session's result that is
 * fetched again. */
const Sonde__V1__Capture *saved_captures_find_equal(const struct saved_captures *saved,
                                                    const Sonde__V1__Capture *metadata);

/* Opens its file, which then stays readable whatever happens. SONDE_NOT_FOUND. */
SONDE_MUST_USE sonde_err saved_captures_open_file(const struct saved_captures *saved, uint64_t id,
                                                  int *fd, struct sonde_diag *diag);
/* Worker. SONDE_CORRUPT, SONDE_IO. */
SONDE_MUST_USE sonde_err saved_capture_read(int fd, struct sonde_profile **profile,
                                            struct sonde_diag *diag);

/* The parts of a file; facts are the caller's, sonde__v1__capture__free_unpacked. SONDE_CORRUPT. */
SONDE_MUST_USE sonde_err saved_capture_parse(struct sonde_slice file, Sonde__V1__Capture **metadata,
                                             struct sonde_slice *profile);

#endif
