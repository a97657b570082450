/* SPDX-License-Identifier: Apache-2.0
 *
 * What may follow the words of a `sonde` command line; the shells' completion scripts ask for it.
 * Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_COMPLETIONS_COMPLETE_H
#define SONDE_CLIENTS_CLI_VERBS_COMPLETIONS_COMPLETE_H

#include <stddef.h>

/* Prints a candidate per line for the last of the words, which follow "sonde" and of which the last
 * may be empty or incomplete: "--mode", or with a description after a tab. The lines "@files" and
 * "@commands" ask the shell to offer files or commands. Candidates need not begin with the last
 * word. */
void complete_print(const char *const *words, size_t count);

/* ---- Words that depend on what runs (complete_running.c) ---- */

/* Attached processes. */
void complete_targets(void);
/* The same, and all processes that this user may sample. */
void complete_processes(void);
/* Saved captures. */
void complete_captures(void);
/* Addresses of the running sonded. */
void complete_services(void);

#endif
