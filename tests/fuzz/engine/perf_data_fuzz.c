/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a perf.data, walked, named and built into a profile. No file of this machine has a
 * table on disk, and no worker is started. */
#include "service/engine/perf_data/perf_data.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct perf_data_options options = {0};
    struct sonde_profile *profile;
    struct sonde_diag diag = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    sonde_err err = perf_data_read(fd, &options, &profile, &diag);
    if ((err == SONDE_OK) != (profile != NULL) || (err && !diag.text[0]))
        abort();
    sonde_profile_destroy(profile);
    close(fd);
    return 0;
}
