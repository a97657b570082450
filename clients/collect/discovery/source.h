/* SPDX-License-Identifier: Apache-2.0
 *
 * What a source is, and how its list is read once.
 *
 * Thread safety: any thread; the functions that read block. */
#ifndef SONDE_CLIENTS_COLLECT_DISCOVERY_SOURCE_H
#define SONDE_CLIENTS_COLLECT_DISCOVERY_SOURCE_H

#include "clients/collect/discovery/host_list.h"

#include <stdatomic.h>
#include <sys/stat.h>

#define SOURCE_MAX_SPEC       2047
#define SOURCE_MAX_FILE_BYTES (32u << 20)
#define SOURCE_MAX_HTTP_BYTES (8u << 20)
#define SOURCE_HTTP_S         10
#define SOURCE_HTTP_REDIRECTS 3

enum source_kind { SOURCE_FILE, SOURCE_DNS, SOURCE_HTTP };

struct source_spec {
    enum source_kind kind;
    char text[SOURCE_MAX_SPEC + 1]; /* the path, NAME:PORT or the URL */
    char name[320];                 /* "file hosts.txt"; a URL without its credentials */
};

/* SONDE_INVALID_ARGUMENT: diag says how to write it. */
SONDE_MUST_USE sonde_err source_read_spec(const char *text, struct source_spec *spec,
                                          struct sonde_diag *diag);

/* What a file looked like when it was read. */
struct source_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

/* False if there is no such file. */
bool source_file_stamp(const char *path, struct source_stamp *stamp);
bool source_stamps_equal(const struct source_stamp *a, const struct source_stamp *b);
/* *list must be destroyed; it is NULL on errors. SONDE_IO, SONDE_INVALID_ARGUMENT,
 * SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err source_read_file(const struct source_spec *spec, struct host_list **list,
                                          struct sonde_diag *diag);
/* Returns the hosts of all A and AAAA records; their tls_name is NAME. SONDE_UNAVAILABLE. */
SONDE_MUST_USE sonde_err source_read_dns(const struct source_spec *spec, struct host_list **list,
                                         struct sonde_diag *diag);
/* Takes at most SOURCE_HTTP_S and SOURCE_MAX_HTTP_BYTES, and follows SOURCE_HTTP_REDIRECTS, from
 * https only to https. Certificates are checked with the file named by CURL_CA_BUNDLE or
 * SSL_CERT_FILE, as curl does, or with the system's. is_stopping ends it within a second.
 * SONDE_UNAVAILABLE, SONDE_TOO_LARGE, SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err source_read_http(const struct source_spec *spec,
                                          const atomic_bool *is_stopping, struct host_list **list,
                                          struct sonde_diag *diag);

#endif
