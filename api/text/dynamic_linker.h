/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that start a program by the dynamic linker, as bundles with a C library of their own do:
 * /lib64/ld-linux-x86-64.so.2 --library-path lib ./program. Any thread. */
#ifndef SONDE_API_TEXT_DYNAMIC_LINKER_H
#define SONDE_API_TEXT_DYNAMIC_LINKER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a path has the base name of glibc's or musl's dynamic linker. */
bool dynamic_linker_is(const char *path);
/* Whether this option of the dynamic linker has its value in the next word. */
bool dynamic_linker_has_value(const char *option);
/* The name by which the started program knows itself: the value of --argv0, or the program's path.
 * `words` are separated by NULs, with a NUL behind the last. Returns `words` if they start no
 * program in this way. */
const char *dynamic_linker_program(const char *words, size_t len);

#endif
