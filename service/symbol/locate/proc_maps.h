/* SPDX-License-Identifier: Apache-2.0
 *
 * /proc/PID/maps, and the copy of it in heap dumps, as symbol_mappings; the parser is
 * api/text/maps_line.h. The kernel takes milliseconds to write the maps of a process with thousands
 * of mappings. So those who look up many mappings share a copy (struct proc_maps), which is read
 * when the first of them needs it. Thread safety: any thread; a reader belongs to one. */
#ifndef SONDE_SERVICE_SYMBOL_LOCATE_PROC_MAPS_H
#define SONDE_SERVICE_SYMBOL_LOCATE_PROC_MAPS_H

#include "service/symbol/symbol.h"

#include <limits.h>
#include <stdio.h>

/* Of one copy. The kernel's own limit is 65,530 mappings by default; what is beyond is missing. */
#define PROC_MAPS_LINES      65536u
#define PROC_MAPS_PATH_BYTES (4u << 20)

struct proc_maps_line {
    struct symbol_mapping mapping; /* its path points into the parsed text */
    bool is_executable;
};

/* Parses a line, from which it cuts the newline and " (deleted)". False if it is malformed or its
 * mapping empty. */
bool proc_maps_parse(char *text, struct proc_maps_line *line);

/* Opens the maps of a process; the caller closes the file. NULL on failure. */
FILE *proc_maps_open(pid_t pid);

/* A copy that has not been read yet; reference-counted. NULL when out of memory. */
struct proc_maps *proc_maps_create(pid_t pid);
struct proc_maps *proc_maps_retain(struct proc_maps *maps); /* NULL is fine */
void proc_maps_release(struct proc_maps *maps);

/* Goes through the lines of a process's maps, or of the copy if there is one. */
struct proc_maps_reader {
    struct proc_maps *maps;
    uint32_t next;
    FILE *file;
    char text[PATH_MAX + 128];
};
void proc_maps_begin(struct proc_maps_reader *reader, pid_t pid, struct proc_maps *maps);
/* The line is valid until the next call. False at the end, or at a malformed line. */
bool proc_maps_next(struct proc_maps_reader *reader, struct proc_maps_line *line);
void proc_maps_end(struct proc_maps_reader *reader);

/* For tests: how often the copy was read from /proc, 0 or 1. */
uint32_t proc_maps_reads(const struct proc_maps *maps);

#endif
