/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pages of a process are resident now, as its page tables say (/proc/PID/pagemap), as far as
 * the kernel counts them in RSS: zero pages are not. A look takes about 50 ns per resident page and
 * 5 ns for any other page of a mapping, and does not stop the process. Any thread. */
#ifndef SONDE_SERVICE_HOST_RESIDENT_RESIDENT_H
#define SONDE_SERVICE_HOST_RESIDENT_RESIDENT_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RESIDENT_PAGES      512u         /* of a chunk: a huge page on machines with 4 KiB pages */
#define RESIDENT_WORDS      8u           /* for a bit each */
#define RESIDENT_MAX_CHUNKS (1u << 18)   /* with resident pages; 512 GiB, in 36 MiB */
#define RESIDENT_MAX_PAGES  (1ull << 28) /* of mappings; 1 TiB */

enum resident_kind {
    RESIDENT_ANONYMOUS = 0,
    RESIDENT_FILE,
    RESIDENT_SHARED, /* shared anonymous memory, memfd, /dev/shm, System V */
    RESIDENT_KINDS
};

/* The pages of one kind in 512 pages of one mapping. */
struct resident_chunk {
    uint64_t number; /* of its first page / RESIDENT_PAGES */
    enum resident_kind kind;
    bool is_huge; /* one huge page */
    uint64_t pages[RESIDENT_WORDS], swapped[RESIDENT_WORDS];
};

struct resident_set {
    struct resident_chunk *chunks; /* ascending numbers, of which several may be equal */
    size_t count, capacity;
    uint64_t page_bytes;
    uint32_t fault_pages;   /* that one fault of anonymous memory can bring, but for huge pages */
    uint64_t skipped_bytes; /* of mappings beyond the limits, whose pages are not known */
    int64_t rss_anon;       /* RssAnon of /proc/PID/status in bytes; -1 = unknown */
    bool knows_huge;        /* is_huge is known, which needs CAP_SYS_ADMIN */
};

/* Opens the process's pagemap, which stays that of its present program. Returns a descriptor or
 * -errno. */
int resident_open(pid_t pid);
/* Reads what is resident; the caller finishes the set, also after an error. SONDE_TARGET_GONE: the
 * program has ended. SONDE_OUT_OF_MEMORY, SONDE_IO. */
SONDE_MUST_USE sonde_err resident_read(int fd, pid_t pid, struct resident_set *set);
/* The same with other limits than RESIDENT_MAX_CHUNKS and RESIDENT_MAX_PAGES; for tests. */
SONDE_MUST_USE sonde_err resident_read_limited(int fd, pid_t pid, size_t chunks, uint64_t pages,
                                               struct resident_set *set);
void resident_finish(struct resident_set *set);

#endif
