/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of /proc/PID/maps:
 *
 *     7f03f48a2000-7f03f48c4000 r-xp 00001000 fe:00 10954152    /usr/lib/libx.so
 *
 * Everyone who reads mappings uses this parser: the guest, sonded, and readers of heap dumps, which
 * have the same lines. It allocates nothing, needs no libc, never reads past `len` and accepts any
 * number of blanks between fields. Thread and signal safety: any thread; signal-safe. */
#ifndef SONDE_API_TEXT_MAPS_LINE_H
#define SONDE_API_TEXT_MAPS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_maps_line {
    uint64_t start, end, offset, inode; /* start < end */
    uint32_t device_major, device_minor;
    bool is_readable, is_writable, is_executable, is_shared; /* is_shared: MAP_SHARED */
    const char *path; /* borrowed from the line: path_len bytes, then the line's end */
    size_t path_len;  /* 0 for anonymous memory */
};

/* Parses a line, with or without its newline. False if it has another form, a number that does not
 * fit, or an empty mapping. */
bool sonde_maps_line_parse(const char *text, size_t len, struct sonde_maps_line *line);
/* Whether the mapping's path is this text, such as "[stack]". */
bool sonde_maps_line_has_path(const struct sonde_maps_line *line, const char *path);
/* The length of a path without the " (deleted)" that the kernel appends to the path of a removed or
 * replaced file. */
size_t sonde_maps_path_len(const char *path, size_t len);

#endif
