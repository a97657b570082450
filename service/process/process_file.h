/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the files of /proc that need rights over a process. This process tries first. If the kernel
 * refuses, an opener that holds the capability may do it: the sampler (service/host/sampler), when
 * there is one. The opener serves root's sonded only for what root lacks, too, because root's
 * sonded opens the files of a process with the rights of that process (process_rights_take).
 *
 * The files are those of a live thread (live_thread.h), so they have the process's content after
 * its main thread has ended, too. The caller checks, before and after, that the pid is still the
 * process it means. Any thread. */
#ifndef SONDE_SERVICE_PROCESS_PROCESS_FILE_H
#define SONDE_SERVICE_PROCESS_PROCESS_FILE_H

#include <stdint.h>
#include <sys/types.h>

enum process_file {
    PROCESS_MAPS = 0, /* /proc/PID/maps, and so on */
    PROCESS_EXE,      /* the file behind /proc/PID/exe */
    PROCESS_ROOT,     /* the directory /proc/PID/root, O_PATH */
    PROCESS_MAPPED,   /* /proc/PID/map_files/START-END: the regular file mapped there */
    PROCESS_MEMORY,   /* /proc/PID/mem, read-only */
    PROCESS_KALLSYMS, /* /proc/kallsyms; pid is ignored */
    PROCESS_PAGEMAP,  /* /proc/PID/pagemap */
    PROCESS_FILES
};

/* These return a descriptor (close-on-exec) or -errno. start and end: only for PROCESS_MAPPED.
 * EINVAL: the pid or the range is invalid, or the file is not a regular one. */
int process_file_open(enum process_file file, pid_t pid, uint64_t start, uint64_t end);
/* Without the opener. */
int process_file_open_own(enum process_file file, pid_t pid, uint64_t start, uint64_t end);

#define PROCESS_MAPPED_PATH 96
/* The path that PROCESS_MAPPED opens. */
void process_mapped_path(pid_t pid, uint64_t start, uint64_t end, char path[PROCESS_MAPPED_PATH]);

typedef int process_file_opener(void *context, enum process_file file, pid_t pid, uint64_t start,
                                uint64_t end);
/* Sets the opener; NULL removes it. No thread may be in process_file_open meanwhile. */
void process_file_set_opener(process_file_opener *opener, void *context);

#endif
