/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/rings/lists.h"

#include "api/base/array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_CPU    65535
#define FILE_BYTES 65536 /* of the list of CPUs, at most */

static bool append(struct number_list *list, int32_t number) {
    if (!array_room(&list->numbers, &list->capacity, list->count, 1))
        return false;
    list->numbers[list->count++] = number;
    return true;
}

static bool take_number(const char **text, long *number) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *number = strtol(*text, &end, 10);
    *text = end;
    return *number <= MAX_CPU;
}

sonde_err number_list_parse(struct number_list *list, const char *text) {
    for (long next = 0;;) {
        long first, last;
        if (!take_number(&text, &first))
            return SONDE_CORRUPT;
        last = first;
        if (*text == '-' && (text++, !take_number(&text, &last)))
            return SONDE_CORRUPT;
        if (first < next || last < first)
            return SONDE_CORRUPT;
        for (next = first; next <= last; next++)
            if (!append(list, (int32_t)next))
                return SONDE_OUT_OF_MEMORY;
        if (*text == ',')
            text++;
        else
            return *text == 0 || (*text == '\n' && text[1] == 0) ? SONDE_OK : SONDE_CORRUPT;
    }
}

sonde_err number_list_read_cpus(struct number_list *list) {
    char *text = malloc(FILE_BYTES);
    if (!text)
        return SONDE_OUT_OF_MEMORY;
    int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, FILE_BYTES - 1);
    if (got <= 0)
        got = snprintf(text, FILE_BYTES, "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
    text[got] = 0;
    if (fd >= 0)
        close(fd);
    sonde_err err = number_list_parse(list, text);
    free(text);
    return err;
}

static int by_number(const void *a, const void *b) {
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

sonde_err number_list_read_threads(struct number_list *list, pid_t pid) {
    char path[32];
    struct dirent *entry;
    sonde_err err = SONDE_OK;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOMEM || errno == EMFILE ? SONDE_OUT_OF_MEMORY : SONDE_TARGET_GONE;
    while (!err && (entry = readdir(dir))) {
        int32_t tid = (int32_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && !append(list, tid))
            err = SONDE_OUT_OF_MEMORY;
    }
    closedir(dir);
    if (!err && list->count == 0)
        err = SONDE_TARGET_GONE;
    if (!err)
        qsort(list->numbers, list->count, sizeof *list->numbers, by_number);
    return err;
}

uint64_t max_sample_rate_read(void) {
    char text[24] = "";
    int fd = open("/proc/sys/kernel/perf_event_max_sample_rate", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return got > 0 ? strtoull(text, NULL, 10) : 0;
}

bool number_list_has(const struct number_list *list, int32_t number) {
    return list->count && bsearch(&number, list->numbers, list->count, sizeof number, by_number);
}

void number_list_finish(struct number_list *list) {
    free(list->numbers);
    *list = (struct number_list){0};
}
