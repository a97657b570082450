/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/proc_maps.h"

#include "api/maps_line.h"

#include <string.h>

bool proc_maps_parse(char *text, struct proc_maps_line *line) {
    struct sonde_maps_line fields;
    size_t len = strcspn(text, "\n");
    text[len] = 0; /* ends the path, too */
    if (!sonde_maps_line_parse(text, len, &fields))
        return false;
    line->is_executable = fields.is_executable;
    line->mapping = (struct symbol_mapping){
        .start = fields.start,
        .end = fields.end,
        .offset = fields.offset,
        .device_major = fields.device_major,
        .device_minor = fields.device_minor,
        .inode = fields.inode,
        .path = fields.path,
    };
    return true;
}

FILE *proc_maps_open(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    return fopen(path, "re");
}
