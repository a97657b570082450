/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns counts into a profile: collects the distinct frames, has service/symbol name them in one
 * batch, and stores them in pprof's model.
 *
 * The drain goes on meanwhile. It only adds to the stacks, mappings and modules that the report
 * reads. A frame whose symbol table is not loaded yet stays an address, and its mapping has
 * has_functions = false, so that tools know that they may look it up themselves. Thread safety: any
 * thread; one report at a time per input. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_H

#include "service/engine/counting/counts.h"
#include "service/engine/counting/time_bins.h"
#include "service/engine/engine.h"
#include "service/engine/report/stacks.h"

#define REPORT_MAX_PARTS 8u
#define REPORT_MAX_BYTES ((size_t)512 << 20)

/* Counts that refer to one stack table. */
struct report_part {
    struct stacks *stacks; /* retained */
    struct counts counts;
    uint32_t span_count; /* of the stacks' spans, when the report was started */
};

/* Of a capture of growth, in bytes. */
struct report_growth {
    bool is_known;
    bool has_ended; /* the process; then all else is 0 */
    uint64_t anonymous, file, shared;
    uint64_t huge;       /* of the anonymous memory, in huge pages */
    uint64_t gone, back; /* anonymous memory given back, and memory that came back from swap */
    uint64_t skipped;    /* address space that was not looked at */
    bool has_rss;
    int64_t rss_change; /* of RssAnon */
    uint32_t thinned;   /* of 2^N sampled faults one was kept */
};

struct report_input {
    struct report_part parts[REPORT_MAX_PARTS];
    uint32_t part_count;
    struct time_bins bins;
    bool has_timeline;
    bool no_symbols;
    bool counts_waits, are_waits_samples; /* contentions and delay; of the capture */
    struct engine_metadata metadata;
    char target_name[64];
    char root_name[64];  /* of a process and all it starts; "" otherwise */
    char executable[64]; /* base name of the only process's file; "" = several processes */
    pid_t pid;
    uint32_t frequency_hz;
    uint64_t every;       /* counted events, by number: for one sample; 0 = at frequency_hz */
    uint64_t max_samples; /* the capture's limit; 0 = none */
    uint64_t cut_stacks[STACK_ENDS];
    uint64_t forgotten;        /* samples of generations that are no longer known */
    uint32_t ignored_mappings; /* of the newest generation, beyond SPACE_MAX_MAPPINGS */
    struct report_growth growth;
};

/* Frees the parts but not the struct. */
void report_input_finish(struct report_input *input);

/* The caller destroys *profile. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err report_build(const struct report_input *input,
                                      struct symbol_store *symbols, struct sonde_profile **profile,
                                      struct sonde_diag *diag);
/* A profile with the mode's sample types and no samples; NULL when out of memory. */
struct sonde_profile *report_empty(enum sonde_event_id event);
/* Copies samples, comments and times. */
SONDE_MUST_USE sonde_err report_dup(const struct sonde_profile *from,
                                    struct sonde_profile **profile, struct sonde_diag *diag);

/* The kind of the frames in a module; NULL = no module is known. */
enum sonde_frame_kind report_kind(const struct symbol_module *module);

/* report_timeline.c: gives the profile its timeline. sample_of[part][entry] is the number of the
 * sample that an entry of a part's counts has become. For report.c only. */
SONDE_MUST_USE sonde_err report_add_timeline(const struct report_input *input,
                                             uint32_t *const *sample_of,
                                             struct sonde_profile *profile);

/* report_text.c: adds comments about clock, rate, drops and coverage. For report.c only. */
SONDE_MUST_USE sonde_err report_add_comments(const struct report_input *input,
                                             struct sonde_profile *profile);

#endif
