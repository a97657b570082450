/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a program file, which `sonde run` checks before it starts it and `sonde doctor`
 * looks for symbols. */
#include "clients/cli/run/executable.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("program", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    struct sonde_diag diag = {0};
    if (executable_check(path, &diag) != SONDE_OK && diag.text[0] == 0)
        __builtin_trap(); /* an error has a message */
    executable_symbols(fd);
    return 0;
}
