/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of a hostile service: messages separated by 0xff. */
#include "api/text/utf8.h"
#include "clients/cli/verbs/live/live_view.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(const struct sonde_buf *out, unsigned columns) {
    for (const char *at = out->data; at && *at; at += strcspn(at, "\n") + 1) {
        size_t characters = 0;
        for (size_t i = 0; at[i] && at[i] != '\n'; i++)
            characters += !sonde_utf8_continues(at[i]);
        if (characters > columns || memchr(at, 27, strcspn(at, "\n")))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct live_view *view = live_view_create(3);
    while (size > 0) {
        const uint8_t *end = memchr(data, 0xff, size);
        size_t len = end ? (size_t)(end - data) : size;
        Sonde__V1__CpuWindow *window = sonde__v1__cpu_window__unpack(NULL, len, data);
        if (window) {
            (void)live_view_add(view, window);
            sonde__v1__cpu_window__free_unpacked(window, NULL);
        }
        size -= len + (end != NULL);
        data += len + (end != NULL);
    }
    for (int i = 0; i < 3; i++) {
        struct sonde_buf out = {0};
        struct live_options options = {.title = "shop",
                                       .filter = i ? "o" : "",
                                       .by = (enum live_rows)i,
                                       .rows = 10,
                                       .columns = 60};
        live_view_move(view, &options, 1 + i);
        if (live_view_draw(view, &options, &out) > options.rows)
            abort();
        live_view_enter(view, &options);
        live_view_move(view, &options, -1);
        live_view_enter(view, &options);
        live_view_draw(view, &options, &out);
        check_lines(&out, 60);
        sonde_buf_finish(&out);
    }
    live_view_destroy(view);
    return 0;
}
