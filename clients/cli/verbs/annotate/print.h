/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a view on stdout: counts first, then the code. Without `all`, only what has samples is
 * shown, and a few lines around it. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_PRINT_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_PRINT_H

#include "clients/annotate/view.h"
#include "clients/cli/verbs/annotate/source_text.h"

#include <stdio.h>

struct print_options {
    bool all;
    struct source_texts *texts;
};

/* Source lines in their order, under each the calls that are inlined there, and the instructions
 * with samples. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err print_lines(const struct view *view, const struct print_options *options);
/* Instructions by address, with the lines they belong to, and arrows for jumps inside the function.
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err print_instructions(const struct view *view,
                                            const struct print_options *options);
/* All of it as one JSON object. */
void print_json(const struct view *view, const struct print_options *options);

/* ---- shared ---- */

/* The names of the columns of print_columns. */
void print_columns_header(const struct view *view);
/* SELF and TOTAL in percent; of two profiles also BASE and CHANGE. counts NULL: blank. */
void print_columns(const struct view *view, const struct view_counts *counts);
/* Whether either side has samples. */
static inline bool print_has_counts(const struct view_counts *counts) {
    return counts[VIEW_NOW].total > 0 || counts[VIEW_BASE].total > 0;
}
/* The part behind the last slash. */
const char *print_base_name(const char *path);
/* A line of a source file, at most 1000 bytes. */
void print_source(const char *text);
/* A name without parameters, as tables have it. */
void print_function(FILE *out, const char *name);
/* The function that a call or jump goes to, as " <memcpy+0x10>"; nothing if it stays inside. */
void print_target(const struct view *view, const Sonde__V1__CodeInstruction *code);

#endif
