/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/jemalloc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_profile *profile;
    struct sonde_diag diag = {0};
    struct sonde_slice bytes = {(const char *)data, size};
    if (sonde_jemalloc_read(bytes, 1 << 20, &profile, &diag) != SONDE_OK && diag.text[0] == 0)
        abort(); /* a refusal says why */
    sonde_profile_destroy(profile);
    return 0;
}
