/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs that `sonde gate` compares, from files, from commands or from history. Main thread only.
 */
#ifndef SONDE_CLIENTS_CLI_VERBS_GATE_INPUT_H
#define SONDE_CLIENTS_CLI_VERBS_GATE_INPUT_H

#include "api/profile/profile.h"
#include "api/settings/options.h"
#include "clients/cli/history.h"
#include "clients/cli/verbs/gate/rules.h"

struct gate_run {
    struct sonde_profile *profile;
    char name[128];
    double seconds;        /* that were sampled */
    char disturbance[128]; /* what else kept the machine busy; "" = nothing, or not known */
};

struct gate_input {
    struct gate_run *runs[2]; /* base and new */
    size_t counts[2];
    bool is_history;
};

struct gate_commands {
    const char *commands[2]; /* for a shell: base and new */
    uint64_t runs, frequency;
    struct service_settings service;
};

struct gate_ranges {
    const char *name, *event, *selectors[2];
    struct history_range range;
    struct service_settings service;
};

/* Zeroed input is valid; finish it in any case. */
void gate_input_finish(struct gate_input *input);
/* Adds a run, which takes the profile, also on an error. Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err gate_input_add(struct gate_input *input, int side,
                                        const struct gate_run *run, struct sonde_diag *diag);

/* Reads profiles. SONDE_INVALID_ARGUMENT if two files have the same content, because they are one
 * run; further errors: those of source_read. */
SONDE_MUST_USE sonde_err gate_read_files(struct gate_input *input,
                                         const struct sonde_option_list *const files[2],
                                         struct sonde_diag *diag);
/* Runs and records both commands by turns: base, new, new, base, ... A warm-up of each is not
 * counted. SONDE_TARGET_GONE: a command failed. */
SONDE_MUST_USE sonde_err gate_run_commands(struct gate_input *input,
                                           const struct gate_commands *commands,
                                           struct sonde_diag *diag);
/* Reads parts of the range, at least a minute each if there are several. */
SONDE_MUST_USE sonde_err gate_read_history(struct gate_input *input,
                                           const struct gate_ranges *ranges,
                                           struct sonde_diag *diag);

/* What the amounts of each run are per, the base's first; the caller frees *exposures.
 * SONDE_INVALID_ARGUMENT if a run has no duration. */
SONDE_MUST_USE sonde_err gate_exposures(const struct gate_input *input, const struct gate_per *per,
                                        double **exposures, struct sonde_diag *diag);

#endif
