/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a hostile program: the first byte is the width. */
#include "api/draw/short_name.h"
#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t width(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += !sonde_utf8_continues(*text);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_buf out = {0};
    if (size == 0)
        return 0;
    char *name = malloc(size);
    memcpy(name, data + 1, size - 1);
    name[size - 1] = 0;
    size_t columns = data[0] < 8 ? 8 : data[0], before = width(name);
    draw_short_name(&out, name, data[0]);
    const char *text = out.len ? out.data : "";
    if (width(text) > columns || (before <= columns && strcmp(text, name) != 0))
        abort();
    sonde_buf_finish(&out);
    free(name);
    return 0;
}
