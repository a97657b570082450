/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_journal;

/* Programs whose stderr goes elsewhere inherit JOURNAL_STREAM, too, so the descriptor decides. */
static void look_for_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat info;
    is_journal = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
                 fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

void log_write(enum log_priority priority, const char *program, const char *text) {
    char mark[8] = "";
    pthread_once(&once, look_for_journal);
    if (is_journal)
        snprintf(mark, sizeof mark, "<%d>", priority);
    fprintf(stderr, "%s%s%s%s\n", mark, program ? program : "", program ? ": " : "", text);
}

void log_report(const char *program, const char *text) {
    static const char *const harmless[] = {"audit: ", "was read again", "can be read again"};
    enum log_priority priority = LOG_LINE_WARNING;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strstr(text, harmless[i]))
            priority = LOG_LINE_INFO;
    log_write(priority, program, text);
}
