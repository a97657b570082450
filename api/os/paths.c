/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/paths.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *absolute(const char *name) {
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

/* Writes prefix, runtime directory and leaf; an empty text if they do not fit. */
static const char *in_runtime_dir(char *text, size_t size, const char *prefix, const char *leaf) {
    const char *runtime = absolute("XDG_RUNTIME_DIR");
    int len = 0;
    if (geteuid() == 0)
        len = snprintf(text, size, "%s/run/sonde/%s", prefix, leaf);
    else if (runtime)
        len = snprintf(text, size, "%s%s/sonde/%s", prefix, runtime, leaf);
    else
        len = snprintf(text, size, "%s/tmp/sonde-%u/%s", prefix, (unsigned)geteuid(), leaf);
    if (len < 0 || (size_t)len >= size)
        text[0] = 0;
    return text;
}

const char *sonde_default_guest_socket(void) {
    static char text[108]; /* sockaddr_un's sun_path */
    return in_runtime_dir(text, sizeof text, "", "guest.sock");
}

const char *sonde_default_grpc_address(void) {
    static char text[108 + sizeof "unix:"];
    return in_runtime_dir(text, sizeof text, "unix:", "grpc.sock");
}

const char *sonde_default_history_address(void) {
    static char text[108 + sizeof "unix:"];
    return in_runtime_dir(text, sizeof text, "unix:", "history.sock");
}

const char *sonde_default_data_dir(void) {
    static char text[4096];
    const char *home = absolute("HOME");
    if (geteuid() == 0)
        return "/var/lib/sonde";
    if (home)
        snprintf(text, sizeof text, "%s/.cache/sonde", home);
    else
        snprintf(text, sizeof text, "/tmp/sonde-%u/cache", (unsigned)geteuid());
    return text;
}
