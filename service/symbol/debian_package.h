/* SPDX-License-Identifier: Apache-2.0
 *
 * Which Debian package has the symbols of an installed file. Looks for the file in dpkg's lists
 * without running dpkg. The lists belong to root, but reading is bounded all the same. Blocks for
 * some milliseconds. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_DEBIAN_PACKAGE_H
#define SONDE_SERVICE_SYMBOL_DEBIAN_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#define DEBIAN_MAX_LISTS      16384
#define DEBIAN_MAX_LIST_BYTES ((size_t)16 << 20)  /* of one list; the rest is not read */
#define DEBIAN_MAX_BYTES      ((size_t)256 << 20) /* of all lists */

#define DEBIAN_PACKAGE 128
struct debian_package {
    char name[DEBIAN_PACKAGE]; /* "redis-tools-dbgsym" */
    bool is_main;              /* it is in the main archive instead of debian-debug */
};

/* False if no package has the file, or the machine has no lists. `folder` is
 * "/var/lib/dpkg/info". */
bool debian_package_find(const char *folder, const char *path, struct debian_package *package);

#endif
