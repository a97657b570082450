/* SPDX-License-Identifier: Apache-2.0
 *
 * Selectors with arbitrary texts, evaluated with values that are pieces of the same text. */
#include "service/store/selector/selector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value(void *context, const char *name) {
    const char *text = context;
    size_t len = strlen(text), skip = len ? (unsigned char)name[0] % len : 0;
    return text + skip;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct selector *selector;
    struct sonde_diag diag = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (selector_parse(text, NULL, NULL, &selector, &diag) == SONDE_OK) {
        selector_matches(selector, value, text);
        selector_names(selector, "a");
        selector_destroy(selector);
    } else if (strncmp(diag.text, "byte ", 5) != 0) {
        fprintf(stderr, "an error without its place: %s\n", diag.text);
        abort();
    }
    free(text);
    return 0;
}
