/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of `sonde gate`, read from its options. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_GATE_RULES_H
#define SONDE_CLIENTS_CLI_VERBS_GATE_RULES_H

#include "api/settings/options.h"
#include "clients/cli/verbs/gate/decide.h"

#define GATE_MAX_INCREASE "3%"
#define GATE_MIN_EFFECT   "0.5%"
#define GATE_CONFIDENCE   "0.95"

/* Texts of the options; NULL = the default. */
struct gate_rule_texts {
    const char *max_increase, *min_effect, *confidence;
    const struct sonde_option_list *functions; /* REGEX=5% */
};

/* What amounts are per. Runs of a fixed job are compared per run, captures of a server per second
 * or per request. */
struct gate_per {
    enum { GATE_PER_DEFAULT, GATE_PER_RUN, GATE_PER_SECOND, GATE_PER_COUNT } kind;
    char name[32];    /* "requests"; GATE_PER_COUNT only */
    double counts[2]; /* of one run, base and new */
};

/* Finish the rules in any case. SONDE_INVALID_ARGUMENT: diag names the option. The rules borrow the
 * texts. */
SONDE_MUST_USE sonde_err gate_rules_read(struct gate_rules *rules,
                                         const struct gate_rule_texts *texts,
                                         struct sonde_diag *diag);
void gate_rules_finish(struct gate_rules *rules);

/* Reads "run", "second", "requests=5000" or "requests=5000,6000" (base and new). NULL = the
 * default. */
SONDE_MUST_USE sonde_err gate_per_read(struct gate_per *per, const char *text,
                                       struct sonde_diag *diag);

#endif
