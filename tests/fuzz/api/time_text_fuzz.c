/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a time. A time that is accepted is within range, and is accepted again as Unix
 * nanoseconds. */
#include "api/text/time_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW 1763869322000000000ll

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t unix_ns, again_ns;
    char *copy = malloc(size ? size : 1), text[32]; /* a copy, to see a read past the end */
    memcpy(copy, data, size);
    if (sonde_time_read((struct sonde_slice){copy, size}, NOW, &unix_ns, NULL) == SONDE_OK) {
        snprintf(text, sizeof text, "%019" PRId64, unix_ns);
        if (unix_ns < 0 || sonde_time_read(sonde_slice_of(text), NOW, &again_ns, NULL) ||
            again_ns != unix_ns)
            abort();
    }
    free(copy);
    return 0;
}
