/* SPDX-License-Identifier: Apache-2.0
 *
 * stat, cgroup, the link exe and cmdline of /proc/PID with arbitrary contents, one behind another,
 * each ended by a zero byte. What comes out must be short and plain. */
#include "service/host/processes/cgroup.h"
#include "service/host/processes/process_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plain(const char *text, size_t size) {
    size_t len = strnlen(text, size);
    if (len == size)
        abort();
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            abort();
}

static void check_name(const char *text, size_t size) {
    check_plain(text, size);
    if (text[0] == '@' || strpbrk(text, "/ \"\\"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct process_stat stat;
    char path[CGROUP_BYTES], container[CGROUP_CONTAINER_BYTES], executable[64], name[64];
    const char *parts[4];
    char *text = calloc(1, size + 5);
    if (!text)
        abort();
    memcpy(text, data, size);
    const char *at = text;
    for (int i = 0; i < 4; i++) {
        parts[i] = at;
        at += at < text + size ? strlen(at) + 1 : 0;
    }
    if (process_stat_parse(parts[0], &stat))
        check_plain(stat.comm, sizeof stat.comm);
    (void)process_auxv_is_32bit(text, size);
    cgroup_parse(parts[1], path);
    cgroup_container(path, container);
    check_name(container, sizeof container);
    process_executable_name(executable, sizeof executable, parts[2]);
    check_name(executable, sizeof executable);
    struct process_command command = {parts[3], (size_t)(text + size - parts[3])};
    process_name(name, sizeof name, &command, executable, "comm");
    check_name(name, sizeof name);
    if (!name[0])
        abort();
    free(text);
    return 0;
}
