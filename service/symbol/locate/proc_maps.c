/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/proc_maps.h"

#include <string.h>

bool proc_maps_parse(char *text, struct proc_maps_line *line) {
    unsigned long long start, end, offset, inode;
    unsigned major, minor;
    char permissions[5];
    int path_at = 0;
    text[strcspn(text, "\n")] = 0;
    if (sscanf(text, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, permissions, &offset, &major,
               &minor, &inode, &path_at) < 7)
        return false;
    line->mapping = (struct symbol_mapping){
        .start = start,
        .end = end,
        .offset = offset,
        .device_major = major,
        .device_minor = minor,
        .inode = inode,
        .path = path_at ? text + path_at : "",
    };
    line->is_executable = permissions[2] == 'x';
    return true;
}

FILE *proc_maps_open(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    return fopen(path, "re");
}
