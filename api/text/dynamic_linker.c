/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/dynamic_linker.h"

#include <string.h>

/* ld-linux-x86-64.so.2, ld-2.31.so, ld.so, ld-musl-x86_64.so.1 */
bool dynamic_linker_is(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "ld", 2) != 0 || (name[2] != '-' && name[2] != '.'))
        return false;
    const char *so = strstr(name + 2, ".so");
    return so && (so[3] == 0 || so[3] == '.');
}

bool dynamic_linker_has_value(const char *option) {
    static const char *const options[] = {
        "--argv0",   "--audit",         "--glibc-hwcaps-mask", "--glibc-hwcaps-prepend",
        "--preload", "--inhibit-rpath", "--library-path"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(option, options[i]) == 0)
            return true;
    return false;
}

const char *dynamic_linker_program(const char *words, size_t len) {
    const char *at = words, *end = words + len;
    if (!dynamic_linker_is(words))
        return words;
    at += strlen(at) + 1;
    while (at < end && at[0] == '-') {
        bool is_name = strcmp(at, "--argv0") == 0, has_value = dynamic_linker_has_value(at);
        at += strlen(at) + 1;
        if (is_name && at < end)
            return at;
        if (has_value && at < end)
            at += strlen(at) + 1;
    }
    return at < end ? at : words;
}
