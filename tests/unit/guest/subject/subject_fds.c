/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that closes every descriptor it finds, as daemons do, and then opens files of its
 * own. */
#include "tests/unit/guest/subject/subject.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST 3
#define FILES 1200 /* covers the numbers that the guest uses */

/* The last kind is a raw system call, which the guest cannot intercept. */
static int close_everything(int kind) {
    if (kind == 0)
        for (int fd = FIRST; fd < 4096; fd++)
            close(fd);
    if (kind == 1)
        closefrom(FIRST);
    if (kind == 2)
        return close_range(FIRST, ~0u, 0);
    return kind == 3 ? (int)syscall(SYS_close_range, FIRST, ~0u, 0) : 0;
}

/* Counts files whose number is another file now, or whose contents have changed. */
static long long spoiled_files(const struct stat *own) {
    long long bad = 0;
    struct stat about;
    for (int fd = FIRST; fd < FIRST + FILES; fd++)
        bad += fstat(fd, &about) == 0 && about.st_ino == own->st_ino && about.st_size != 0;
    return bad;
}

static long long count_files(const struct stat *own) {
    long long count = 0;
    struct stat about;
    for (int fd = FIRST; fd < FIRST + 2 * FILES; fd++)
        count += fstat(fd, &about) == 0 && about.st_ino == own->st_ino;
    return count;
}

/* argument: how to close. Prints how many of its files are lost, and how many have changed. */
void verb_closer(int kind) {
    struct stat own;
    subject_say("ready", 0, 0);
    subject_wait();
    int failed = close_everything(kind);
    int file = fileno(tmpfile());
    for (int i = 1; i < FILES; i++)
        failed += fcntl(file, F_DUPFD_CLOEXEC, FIRST) < 0;
    failed += fstat(file, &own) != 0;
    subject_say("closed", failed, 0);
    subject_wait();
    subject_work(300 * SUBJECT_MS);
    subject_say("done", FILES - count_files(&own), spoiled_files(&own));
    subject_wait();
}
