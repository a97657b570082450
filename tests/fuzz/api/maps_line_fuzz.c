/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a line of /proc/PID/maps. A line that is accepted must be accepted again, with the
 * same values, after it is printed as the kernel prints it. */
#include "api/text/maps_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct sonde_maps_line *line) {
    char text[8192];
    struct sonde_maps_line again;
    int len = snprintf(text, sizeof text, "%08lx-%08lx %c%c%cp %08lx %02x:%02x %lu    ",
                       line->start, line->end, line->is_readable ? 'r' : '-',
                       line->is_writable ? 'w' : '-', line->is_executable ? 'x' : '-', line->offset,
                       line->device_major, line->device_minor, line->inode);
    memcpy(text + len, line->path, line->path_len);
    if (!sonde_maps_line_parse(text, (size_t)len + line->path_len, &again) ||
        again.start != line->start || again.end != line->end || again.offset != line->offset ||
        again.inode != line->inode || again.device_major != line->device_major ||
        again.device_minor != line->device_minor || again.is_readable != line->is_readable ||
        again.is_writable != line->is_writable || again.is_executable != line->is_executable)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_maps_line line;
    char *copy = malloc(size ? size : 1); /* so that sanitizers see a read past the end */
    memcpy(copy, data, size);
    if (sonde_maps_line_parse(copy, size, &line)) {
        if (line.start >= line.end || line.path < copy || line.path + line.path_len > copy + size)
            abort();
        if (line.path_len < 4096)
            check_again(&line);
    }
    free(copy);
    return 0;
}
