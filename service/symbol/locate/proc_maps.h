/* SPDX-License-Identifier: Apache-2.0
 *
 * /proc/PID/maps, and the copy of it in heap dumps, as symbol_mappings; the parser is
 * api/maps_line.h. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_LOCATE_PROC_MAPS_H
#define SONDE_SERVICE_SYMBOL_LOCATE_PROC_MAPS_H

#include "service/symbol/symbol.h"

#include <stdio.h>

struct proc_maps_line {
    struct symbol_mapping mapping; /* its path points into the parsed text */
    bool is_executable;
};

/* Parses a line, from which it cuts the newline. False if it is malformed or its mapping empty. */
bool proc_maps_parse(char *text, struct proc_maps_line *line);

/* Opens the maps of a process; the caller closes the file. NULL on failure. */
FILE *proc_maps_open(pid_t pid);

#endif
