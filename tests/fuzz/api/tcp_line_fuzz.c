/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a line of /proc/net/tcp. A line that is accepted must be accepted again, with the
 * same values, after it is printed as the kernel prints it. */
#include "api/text/tcp_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int print_end(char *text, size_t size, const struct sonde_tcp_end *end, bool is_v6) {
    const uint32_t *words = end->address;
    if (!is_v6)
        return snprintf(text, size, "%08X:%04X", words[0], end->port);
    return snprintf(text, size, "%08X%08X%08X%08X:%04X", end->is_v6 ? words[0] : 0,
                    end->is_v6 ? words[1] : 0, end->is_v6 ? words[2] : 0xFFFF0000,
                    end->is_v6 ? words[3] : words[0], end->port);
}

static void check_again(const struct sonde_tcp_line *line) {
    char own[64], other[64], text[256];
    struct sonde_tcp_line again;
    bool is_v6 = line->own.is_v6 || line->other.is_v6;
    print_end(own, sizeof own, &line->own, is_v6);
    print_end(other, sizeof other, &line->other, is_v6);
    int len = snprintf(text, sizeof text, "%4d: %s %s %02X %08X:%08X %02X:%08lX %08X %5u %8d %lu",
                       7, own, other, line->state, 0u, 0u, 0u, 0ul, 0u, line->uid, 0, line->inode);
    if (!sonde_tcp_line_parse(text, (size_t)len, &again) || again.state != line->state ||
        again.uid != line->uid || again.inode != line->inode ||
        !sonde_tcp_end_equals(&again.own, &line->own) ||
        !sonde_tcp_end_equals(&again.other, &line->other))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_tcp_line line;
    char *copy = malloc(size ? size : 1); /* so that sanitizers see a read past the end */
    memcpy(copy, data, size);
    if (sonde_tcp_line_parse(copy, size, &line))
        check_again(&line);
    free(copy);
    return 0;
}
