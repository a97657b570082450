/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/process_text.h"

#include "api/base/array.h"
#include "api/text/dynamic_linker.h"
#include "api/text/maps_line.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD, in the flags of /proc/PID/stat */

/* --- reading ---------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
    return (left > right) - (left < right);
}

static sonde_err append(pid_t **numbers, size_t *count, size_t *capacity, pid_t number) {
    if (!array_room(numbers, capacity, *count, 1))
        return SONDE_OUT_OF_MEMORY;
    (*numbers)[(*count)++] = number;
    return SONDE_OK;
}

sonde_err process_numbers(const char *path, size_t limit, pid_t **numbers, size_t *count) {
    size_t capacity = 0;
    sonde_err err = SONDE_OK;
    DIR *dir = opendir(path);
    *numbers = NULL;
    *count = 0;
    if (!dir)
        return SONDE_IO;
    for (struct dirent *entry; !err && *count < limit && (entry = readdir(dir)) != NULL;) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number > 0 && number <= INT32_MAX)
            err = append(numbers, count, &capacity, (pid_t)number);
    }
    closedir(dir);
    if (*count > 1)
        qsort(*numbers, *count, sizeof **numbers, by_number);
    return err;
}

size_t process_file_read(const char *proc, pid_t pid, const char *leaf, char *text, size_t size) {
    char path[320];
    snprintf(path, sizeof path, "%s/%d/%s", proc, (int)pid, leaf);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len > 0 ? (size_t)len : 0;
}

uint64_t process_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000000ull + (uint64_t)used.tv_nsec;
}

/* --- numbers ---------------------------------------------------------------------------------- */

void process_comm_clean(char to[16], const char *from, size_t len) {
    len = len < 15 ? len : 15;
    for (size_t i = 0; i < len; i++)
        to[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    to[len] = 0;
}

bool process_stat_parse(const char *text, struct process_stat *stat) {
    enum { PARENT = 0, FLAGS = 5, USER = 10, SYSTEM = 11, THREADS = 16, START = 18, FIELDS = 19 };
    long long fields[FIELDS];
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')'); /* comm can contain any character */
    *stat = (struct process_stat){0};
    if (!open || !close || close < open || close[1] != ' ' || !close[2])
        return false;
    const char *at = close + 3; /* behind the state */
    for (int i = 0; i < FIELDS; i++) {
        char *end;
        fields[i] = strtoll(at, &end, 10);
        if (end == at)
            return false;
        at = end;
    }
    process_comm_clean(stat->comm, open + 1, (size_t)(close - open - 1));
    stat->parent = (pid_t)fields[PARENT];
    stat->is_kernel = (unsigned long long)fields[FLAGS] & KERNEL_THREAD;
    stat->threads = (uint32_t)fields[THREADS];
    stat->main_ended = close[2] == 'Z' || close[2] == 'X';
    stat->has_ended = stat->main_ended && stat->threads <= 1;
    stat->is_stopped = close[2] == 'T' || close[2] == 't';
    stat->cpu_ticks = (uint64_t)fields[USER] + (uint64_t)fields[SYSTEM];
    stat->start_ticks = (uint64_t)fields[START];
    return true;
}

/* Read as 32-bit words, the first auxv entry starts with its type. The next word is 0 in a 64-bit
 * process (upper half of the type) and an address in a 32-bit one. */
bool process_auxv_is_32bit(const char *auxv, size_t len) {
    uint32_t words[2];
    if (len < sizeof words)
        return false;
    memcpy(words, auxv, sizeof words);
    return words[0] != 0 && words[1] != 0;
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void process_name_clean(char *out, size_t size, const char *text) {
    size_t len = 0;
    for (; text[len] && len < size - 1; len++) {
        unsigned char byte = (unsigned char)text[len];
        bool is_plain = byte > ' ' && byte < 0x7f && byte != '/' && byte != '"' && byte != '\\' &&
                        (byte != '@' || len > 0);
        out[len] = is_plain ? (char)byte : '_';
    }
    out[len] = 0;
}

void process_executable_name(char *out, size_t size, const char *link) {
    char base[256];
    snprintf(base, sizeof base, "%s", base_of(link));
    base[sonde_maps_path_len(base, strlen(base))] = 0;
    process_name_clean(out, size, base);
}

void process_name(char *out, size_t size, const struct process_command *from,
                  const char *executable, const char *comm) {
    const char *command = dynamic_linker_program(from->text, from->len);
    char first[256];
    process_name_clean(out, size, base_of(command));
    if (out[0] && strcmp(out, executable) == 0)
        return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(command, " "), command);
    size_t len = strlen(first);
    if (len > 1 && first[len - 1] == ':')
        first[len - 1] = 0;
    process_name_clean(out, size, base_of(first));
    if (!out[0])
        process_name_clean(out, size, executable[0] ? executable : comm);
}
