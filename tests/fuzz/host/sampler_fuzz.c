/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's requests with arbitrary contents. A refusal has no descriptors, and an answer has
 * as many as it says. Loading the BPF program is left out, because it is slow; its numbers are
 * checked by off_cpu_load. */
#include "service/host/sampler/protocol.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sampler_request request = {.version = SAMPLER_VERSION};
    int fds[SAMPLER_MAX_FDS];
    uint32_t count;
    memcpy(&request, data, size < sizeof request ? size : sizeof request);
    if (size % 8 != 0) /* otherwise few inputs come further */
        request.version = SAMPLER_VERSION;
    if (request.kind == SAMPLER_OFF_CPU || request.kind == SAMPLER_TRY_BPF)
        return 0;
    int error = sampler_work(&request, fds, &count);
    if (error > 0 || (error < 0 && count != 0) || count > SAMPLER_MAX_FDS)
        abort();
    for (uint32_t i = 0; i < count; i++)
        if (!(fcntl(fds[i], F_GETFD) & FD_CLOEXEC) || close(fds[i]) != 0)
            abort();
    return 0;
}
