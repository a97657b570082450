/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of saved captures with arbitrary contents, as another program may have written them. */
#include "service/rpc/saved/saved_captures.h"

#include "api/profile/pprof/pprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Sonde__V1__Capture *metadata = NULL;
    struct sonde_slice body, bins;
    struct sonde_profile *profile;
    struct sonde_timeline *timeline;
    if (saved_capture_parse((struct sonde_slice){(const char *)data, size}, &metadata, &body) !=
        SONDE_OK)
        return 0;
    if (saved_capture_split(metadata, &body, &bins) == SONDE_OK &&
        sonde_pprof_read(body, 1 << 20, &profile, NULL) == SONDE_OK) {
        if (sonde_timeline_read(bins, profile, &timeline, NULL) == SONDE_OK)
            sonde_timeline_destroy(timeline);
        sonde_profile_destroy(profile);
    }
    sonde__v1__capture__free_unpacked(metadata, NULL);
    return 0;
}
