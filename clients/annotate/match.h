/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions of a profile a name means: see api/draw/names/name_match.h. A linkage name is
 * also exact. Thread safety: any thread. */
#ifndef SONDE_CLIENTS_ANNOTATE_MATCH_H
#define SONDE_CLIENTS_ANNOTATE_MATCH_H

#include "api/profile/profile.h"

/* One element per function id; from malloc. NULL when out of memory. */
bool *match_functions(const struct sonde_profile *profile, const char *name);
/* Whether the name consists only of *, and so means all functions. */
bool match_is_anything(const char *name);
/* Whether any is called exactly that. */
bool match_is_exact(const struct sonde_profile *profile, const char *name);
/* SONDE_NOT_FOUND, with the nearest name, or up to 4 that contain it. */
sonde_err match_refuse(const struct sonde_profile *profile, const char *name,
                       struct sonde_diag *diag);

#endif
