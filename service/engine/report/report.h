/* SPDX-License-Identifier: Apache-2.0
 *
 * From counts to a profile: frames told apart, named by service/symbol in one batch, laid out as
 * pprof's model.
 *
 * What a report reads (stacks below the counts' numbers, mappings, modules) is shared with the
 * drain and never changes under it. A frame whose module's names are not at hand yet stays an
 * address, and its mapping says has_functions = false, so that tools know to look themselves.
 * Thread safety: any thread; one report at a time per input. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_H

#include "service/engine/capture/counts.h"
#include "service/engine/engine.h"
#include "service/engine/report/stacks.h"

#define REPORT_MAX_PARTS 8u
#define REPORT_MAX_BYTES ((size_t)512 << 20)

/* Counts over one generation of stacks. */
struct report_part {
    struct stacks *stacks; /* retained */
    struct counts counts;
};

struct report_input {
    struct report_part parts[REPORT_MAX_PARTS];
    uint32_t part_count;
    bool no_symbols;
    struct engine_facts facts; /* facts.clock and budget_note point to the texts below */
    char target_name[64], clock[24], clock_note[192], budget_note[192]; /* "" = none */
    pid_t pid;
    uint32_t frequency_hz;
    uint64_t cut_stacks[RING_END_COUNT];
};

/* Frees the parts, not the input itself. */
void report_input_finish(struct report_input *input);

/* *profile is the caller's. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err report_build(const struct report_input *input,
                                      struct symbol_store *symbols, struct sonde_profile **profile,
                                      struct sonde_diag *diag);
/* A profile with the right types and nothing in it; NULL when out of memory. */
struct sonde_profile *report_empty(enum engine_mode mode);
/* The same again: samples, comments, times. */
SONDE_MUST_USE sonde_err report_dup(const struct sonde_profile *from,
                                    struct sonde_profile **profile, struct sonde_diag *diag);

/* What lies in a module; NULL = unknown. */
enum sonde_frame_kind report_kind(const struct symbol_module *module);

/* Comments: clock, rate, drops, coverage. Private to the report. */
SONDE_MUST_USE sonde_err report_add_comments(const struct report_input *input,
                                             struct sonde_profile *profile);

#endif
