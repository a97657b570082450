/* SPDX-License-Identifier: Apache-2.0
 *
 * draw_dump FORMAT < DUMP renders a heap dump without the allocator's frames to stdout. */
#include "api/draw/draw.h"
#include "api/profile/heap/jemalloc.h"
#include "api/profile/heap/memory.h"

#include <stdio.h>

static sonde_err draw(struct sonde_slice dump, const char *output, struct sonde_buf *out,
                      struct sonde_diag *diag) {
    struct sonde_profile *whole = NULL, *trimmed = NULL;
    const struct sonde_format_info *format =
        sonde_format_from_output_of(sonde_slice_of(output), SONDE_OF_HEAP);
    sonde_err err = format ? sonde_jemalloc_read(dump, 0, &whole, diag) : SONDE_INVALID_ARGUMENT;
    if (!err)
        err = sonde_memory_trim(whole, sonde_memory_of_library, NULL, &trimmed, diag);
    if (!err) {
        struct sonde_draw_options options = sonde_draw_defaults(trimmed);
        err = sonde_draw(trimmed, format->format, &options, out, diag);
    }
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(whole);
    return err;
}

int main(int argc, char **argv) {
    struct sonde_buf dump = {0}, out = {0};
    struct sonde_diag diag = {0};
    char part[4096];
    for (size_t len = 1; len > 0;) {
        len = fread(part, 1, sizeof part, stdin);
        sonde_buf_append(&dump, part, len);
    }
    sonde_err err = draw(sonde_buf_slice(&dump), argc > 1 ? argv[1] : "", &out, &diag);
    if (err)
        fprintf(stderr, "%s\n", sonde_diag_text(&diag, err));
    fwrite(sonde_buf_slice(&out).data, 1, out.len, stdout);
    sonde_buf_finish(&dump);
    sonde_buf_finish(&out);
    return err != SONDE_OK;
}
