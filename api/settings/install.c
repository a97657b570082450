/* SPDX-License-Identifier: Apache-2.0 */
#include "api/settings/install.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where Debian keeps libraries of this architecture; its dynamic linker puts this for $LIB. */
#define DEBIAN_LIB "lib/x86_64-linux-gnu"
#define MAX_PATHS  4

struct install_row {
    const char *name;
    int access;
    const char *paths[MAX_PATHS]; /* relative to the directory of this program */
};

static const struct install_row rows[INSTALLED_COUNT] = {
    [INSTALLED_SONDED] = {"sonded", X_OK, {"sonded", "../../service/sonded"}},
    [INSTALLED_GATEWAY] = {"sonde-gateway", X_OK, {"sonde-gateway", "../../gateway/sonde-gateway"}},
    [INSTALLED_LIBSONDE] = {"libsonde.so",
                            R_OK,
                            {"../lib/libsonde.so", "../" DEBIAN_LIB "/libsonde.so.0",
                             "../../service/guest/libsonde.so", "libsonde.so"}},
};

const char *install_name(enum installed file) {
    return rows[file].name;
}

/* The directory of the running program, without a trailing slash. */
static bool own_folder(char folder[PATH_MAX]) {
    ssize_t len = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (len <= 0)
        return false;
    folder[len] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool is_there(const struct install_row *row, const char *folder, const char *name,
                     char path[PATH_MAX]) {
    char joined[2 * PATH_MAX];
    snprintf(joined, sizeof joined, "%s/%s", folder, name);
    return access(joined, row->access) == 0 && realpath(joined, path) != NULL;
}

sonde_err install_find(enum installed file, char path[PATH_MAX], struct sonde_diag *diag) {
    const struct install_row *row = &rows[file];
    const char *named = getenv("SONDE_LIBDIR");
    if (named && *named && is_there(row, named, row->name, path))
        return SONDE_OK;
    char folder[PATH_MAX];
    bool known = own_folder(folder);
    for (size_t i = 0; known && i < MAX_PATHS && row->paths[i]; i++)
        if (is_there(row, folder, row->paths[i], path))
            return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "%s not found next to sonde; install all of Sonde into one prefix, or set "
                      "SONDE_LIBDIR to the directory that has it",
                      row->name);
}

/* The values of $LIB: on Debian, on other 64-bit systems, and none. */
static const char *const lib_folders[] = {DEBIAN_LIB, "lib64", "lib"};

/* "/usr/lib/x86_64-linux-gnu/libsonde.so.0", a file of Debian's package. */
static bool is_packaged(const char *libsonde, size_t *prefix) {
    static const char tail[] = "/" DEBIAN_LIB "/libsonde.so.0";
    size_t len = strlen(libsonde);
    if (len < sizeof tail || strcmp(libsonde + len - (sizeof tail - 1), tail) != 0)
        return false;
    *prefix = len - (sizeof tail - 1);
    return true;
}

void install_preload_path(const char *libsonde, char path[PATH_MAX]) {
    size_t packaged;
    if (is_packaged(libsonde, &packaged)) {
        snprintf(path, PATH_MAX, "%.*s/$LIB/libsonde.so.0", (int)packaged, libsonde);
        return;
    }
    static const char tail[] = "/lib/libsonde.so";
    size_t len = strlen(libsonde), prefix = len > sizeof tail ? len - (sizeof tail - 1) : 0;
    struct stat own, other;
    snprintf(path, PATH_MAX, "%s", libsonde);
    if (!prefix || strcmp(libsonde + prefix, tail) != 0 || stat(libsonde, &own) != 0)
        return;
    for (size_t i = 0; i < sizeof lib_folders / sizeof lib_folders[0]; i++) {
        char there[PATH_MAX];
        snprintf(there, sizeof there, "%.*s/%s/libsonde.so", (int)prefix, libsonde, lib_folders[i]);
        if (stat(there, &other) != 0 || other.st_ino != own.st_ino || other.st_dev != own.st_dev)
            return;
    }
    snprintf(path, PATH_MAX, "%.*s/$LIB/libsonde.so", (int)prefix, libsonde);
}
