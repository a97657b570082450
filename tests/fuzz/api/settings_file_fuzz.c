/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/settings_file.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sonde_err on_setting(void *context, size_t name, const char *place, const char *value) {
    if (name >= *(const size_t *)context || strncmp(place, "fuzz.conf:", 10) != 0 ||
        strlen(value) > SONDE_SETTINGS_MAX_LINE || strchr(value, '\n'))
        __builtin_trap();
    return SONDE_OK;
}

/* Values have no line ends, and a refusal has the file and a line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"enable-heap-profiling", "socket"};
    size_t count = sizeof names / sizeof names[0];
    const struct sonde_settings_reader reader = {"sonded", names, count, on_setting, &count};
    struct sonde_diag diag = {0};
    FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!file)
        return 0;
    sonde_err err = sonde_settings_read(file, "fuzz.conf", &reader, &diag);
    if (err && strncmp(diag.text, "fuzz.conf:", 10) != 0)
        __builtin_trap();
    fclose(file);
    return 0;
}
