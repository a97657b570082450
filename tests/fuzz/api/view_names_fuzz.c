/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of a view of hostile programs, separated by newlines; the first byte is the width of a
 * table. Different names must look different, and a name must not grow. */
#include "api/draw/names/readable_name.h"
#include "api/draw/names/view_names.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_different(const char *const *names, const char *const *shown, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if ((strcmp(shown[i], shown[j]) == 0) != (strcmp(names[i], names[j]) == 0))
                abort();
}

/* A comma may become a comma and a space. */
static void check_length(const char *name, const char *shown) {
    size_t commas = 0;
    for (const char *at = name; *at; at++)
        commas += *at == ',';
    if (strlen(shown) > strlen(name) + commas)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *names[MOST_NAMES], *shown[MOST_NAMES];
    struct sonde_arena arena = {0};
    size_t count = 0;
    if (size == 0)
        return 0;
    char *text = malloc(size), *rest = text;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    while (count < MOST_NAMES && rest)
        names[count++] = strsep(&rest, "\n");
    if (draw_view_names(names, count, &arena, shown))
        abort();
    check_different(names, shown, count);
    for (size_t i = 0; i < count; i++)
        check_length(names[i], shown[i]);
    if (draw_row_names(names, count, data[0], &arena, shown))
        abort();
    sonde_arena_finish(&arena);
    free(text);
    return 0;
}
