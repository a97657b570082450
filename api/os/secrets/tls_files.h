/* SPDX-License-Identifier: Apache-2.0
 *
 * The PEM files of one side of TLS connections: a certificate with its key, a CA, or both. They are
 * read again when they change (file_watch.h), checked as a whole, and handed out as a set that does
 * not change. A certificate that has been replaced before its key does not match it: the old set
 * stays in use until both are there.
 *
 * Thread safety: any thread. */
#ifndef SONDE_API_OS_SECRETS_TLS_FILES_H
#define SONDE_API_OS_SECRETS_TLS_FILES_H

#include "api/os/secrets/secret_file.h"

#include <stdint.h>

#define TLS_FILES_MAX_BYTES (1u << 20) /* of each file */

struct tls_files;

struct tls_files_options {
    /* NULL = none; cert_file and key_file together. Copied. */
    const char *cert_file, *key_file, *ca_file;
    enum sonde_file_kind key_kind;
    void (*log)(const char *line); /* what became of changed files; may be NULL */
};

/* One version of the files. */
struct tls_pems {
    const char *cert, *key, *ca; /* NULL = none */
    uint64_t version;            /* 1, 2, ... */
};

/* Reads and checks the files. SONDE_INVALID_ARGUMENT (not PEM, an encrypted key, a certificate and
 * a key that do not match), SONDE_PERMISSION_DENIED (others can read the key; SONDE_FILE_SECRET
 * only), SONDE_TOO_LARGE, SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err tls_files_create(const struct tls_files_options *options,
                                          struct tls_files **files, struct sonde_diag *diag);
/* Sets that are still in use live on. NULL is fine. */
void tls_files_destroy(struct tls_files *files);

/* The newest set that could be used. Looks for changed files first, at most once a second. The
 * caller drops it. */
const struct tls_pems *tls_files_take(struct tls_files *files);
/* Overwrites the key of a set that nobody uses any more. NULL is fine. */
void tls_pems_drop(const struct tls_pems *pems);

/* When the first certificate of a PEM file expires, in seconds since 1970. SONDE_INVALID_ARGUMENT:
 * it is not a certificate; SONDE_IO: it cannot be read. */
SONDE_MUST_USE sonde_err tls_file_end(const char *path, int64_t *end_s, struct sonde_diag *diag);

#endif
