/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiles of `sonde annotate`: a file, a capture of a target, or a range of the history; and
 * one to compare it with. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_ANNOTATE_PROFILES_H
#define SONDE_CLIENTS_CLI_VERBS_ANNOTATE_PROFILES_H

#include "clients/cli/verbs/source/source.h"

#include <sys/types.h>

struct profiles_settings {
    struct source_settings source; /* its type is also that of files and the history */
    const char *base;              /* file */
    const char *from, *until, *base_from, *base_until, *selector; /* any: the history */
};

struct profiles {
    struct sonde_profile *now, *base; /* base NULL = nothing to compare with */
    size_t now_type, base_type;
    pid_t pid; /* that was captured; 0 = none */
};

/* Why the options do not go together, or with the word; NULL = they do. */
const char *profiles_contradiction(const struct profiles_settings *settings, const char *word);
/* word: a file, or a target or service (NULL = the only one). The caller finishes *profiles, also
 * after an error. */
SONDE_MUST_USE sonde_err profiles_read(const struct profiles_settings *settings, const char *word,
                                       struct profiles *profiles, struct sonde_diag *diag);
void profiles_finish(struct profiles *profiles);

#endif
