/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the files that `perf record` writes (perf.data), also compressed ones and those of a pipe:
 *
 *     bytes.c     the file's bytes, in a window of 1 MiB; AUX data are skipped
 *     header.c    the header, and the sections behind the records
 *     features.c  build-ids, event names, architecture: in such a section, or in records of a pipe
 *     events.c    the events, and which of them a sample is of
 *     stream.c    from bytes to records, through zstd where they are compressed
 *     order.c     the records in order of time
 *     record.c    one record
 *
 * Every byte may be hostile. A file that cannot be read at all is refused with one sentence. A file
 * that breaks a rule of the format later on is read up to there, and `notes` say so. Memory: up to
 * PERF_FILE_QUEUE_BYTES of records that wait for earlier ones, and PERF_FILE_MAX_BUILD_IDS.
 *
 * Thread safety: one thread at a time per file. */
#ifndef SONDE_SERVICE_HOST_PERF_FILE_PERF_FILE_H
#define SONDE_SERVICE_HOST_PERF_FILE_PERF_FILE_H

#include "api/error.h"
#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_FILE_MAX_EVENTS    31u /* of different names */
#define PERF_FILE_MAX_BUILD_IDS 65536u
#define PERF_FILE_QUEUE_BYTES   ((size_t)256 << 20)
#define PERF_FILE_PLAIN_BYTES   (1ull << 40) /* of decompressed records at most */
#define PERF_FILE_MAX_CHAIN     1024u        /* frames of one call chain; further ones are cut */
#define PERF_FILE_BUILD_ID      41u          /* 20 bytes in hex, and a NUL */

enum perf_file_kind {
    PERF_FILE_SAMPLE = 0,
    PERF_FILE_MMAP,         /* executable memory of a process, or the kernel's code */
    PERF_FILE_COMM,         /* a thread's new name; is_exec: its process runs another program */
    PERF_FILE_FORK,         /* a new thread (pid == parent_pid) or process */
    PERF_FILE_EXIT,         /* of a thread */
    PERF_FILE_LOST,         /* `lost` records did not fit into a ring */
    PERF_FILE_LOST_SAMPLES, /* `lost` again, as an event counted it (Linux 6.0) */
    PERF_FILE_KINDS
};

struct perf_file_sample {
    uint32_t event; /* index */
    uint64_t period;
    uint64_t ip;
    bool is_in_kernel;
    const uint64_t *kernel, *user; /* of the call chain: leaf first, the first of each is exact */
    uint32_t kernel_count, user_count;
    bool has_registers, is_32bit;      /* registers of 64-bit code are all known */
    struct unwind_registers registers; /* if has_registers */
    const uint8_t *stack;              /* from the rsp in registers on */
    size_t stack_bytes;                /* 0 = no copy */
};

struct perf_file_mmap {
    uint64_t start, end, offset, inode, inode_generation;
    uint32_t device_major, device_minor;
    bool is_kernel;
    char build_id[PERF_FILE_BUILD_ID]; /* "" = not in this record */
    const char *path;                  /* "" = anonymous */
};

/* Pointers are valid during the call that delivers the record. */
struct perf_file_record {
    enum perf_file_kind kind;
    int32_t pid, tid; /* -1 = the kernel */
    uint64_t time_ns; /* 0 = from before the recording */
    union {
        struct perf_file_sample sample;
        struct perf_file_mmap mmap;
        struct {
            const char *name;
            bool is_exec;
        } comm;
        struct {
            int32_t parent_pid;
            bool has_own_map; /* perf found the process in /proc: its maps follow */
        } fork;
        uint64_t lost;
    };
};

/* An event may have several entries in the file, of processors for example; here it is one. */
struct perf_file_event {
    char name[64]; /* "cycles", "cpu-clock" */
    bool is_time;  /* its periods are nanoseconds */
};

/* What is known when all records were read. */
struct perf_file_notes {
    bool is_truncated; /* the file ends within a record, or perf record was killed */
    bool is_broken;    /* a record breaks a rule of the format; those behind it are missing */
    uint64_t invalid;  /* records that were skipped because they break a rule */
    uint64_t unknown;  /* samples of an event that the file does not have */
    uint64_t late;     /* records that came after later ones */
    uint64_t first_ns, last_ns; /* of the samples, on the recording's clock */
};

struct perf_file;

/* Reads the header from the start of fd, which is borrowed. The caller closes *file.
 * SONDE_INVALID_ARGUMENT: not such a file, or of another byte order, machine or version;
 * SONDE_CORRUPT, SONDE_TOO_LARGE (too many events), SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err perf_file_open(int fd, struct perf_file **file, struct sonde_diag *diag);
void perf_file_close(struct perf_file *file);

typedef void perf_file_on_record(void *context, const struct perf_file_record *record);
/* Delivers all records, those with a time in order of time. Call it once. Errors: those of open,
 * because a pipe's file has its header among the records. */
SONDE_MUST_USE sonde_err perf_file_read(struct perf_file *file, perf_file_on_record *on_record,
                                        void *context, struct sonde_diag *diag);

/* For the rest, after perf_file_read; events also while it delivers. */
uint32_t perf_file_event_count(const struct perf_file *file);
const struct perf_file_event *perf_file_event(const struct perf_file *file, uint32_t index);
const struct perf_file_notes *perf_file_notes(const struct perf_file *file);
/* The build-id of a path in lower-case hex; "" = unknown. Known before reading, except in a pipe's
 * file. The kernel's path is "[kernel.kallsyms]". */
const char *perf_file_build_id(const struct perf_file *file, const char *path);
const char *perf_file_os_release(const struct perf_file *file); /* "" = unknown */

#endif
