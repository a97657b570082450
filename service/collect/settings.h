/* SPDX-License-Identifier: Apache-2.0
 *
 * What a controller asks of a session: checked, and completed with the defaults and this service's
 * limits. Thread safety: none; choosing only reads. */
#ifndef SONDE_SERVICE_COLLECT_SETTINGS_H
#define SONDE_SERVICE_COLLECT_SETTINGS_H

#include "api/error.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/record/record.h"

#define COLLECT_MAX_RULES 1000

/* Returns what is in effect, as a message that the caller frees with
 * sonde__v1__collect_settings__free_unpacked. from NULL: the settings of a session that was given
 * none. SONDE_INVALID_ARGUMENT names the field, its value and its bounds. */
SONDE_MUST_USE sonde_err collect_settings_read(const Sonde__V1__CollectSettings *from,
                                               uint32_t max_hz,
                                               Sonde__V1__CollectSettings **effective,
                                               struct sonde_diag *diag);
/* Whether the recorder must be restarted. */
bool collect_settings_differ(const Sonde__V1__CollectSettings *left,
                             const Sonde__V1__CollectSettings *right);

/* The rate of the stream of the whole machine; 0 = nobody is recorded. */
uint32_t collect_settings_machine_hz(const Sonde__V1__CollectSettings *settings);

/* What is recorded of a process now. *is_matched: a rule with a probability above 0 fits.
 *
 * A process is drawn for a term of draw_s at a time: u = the first 8 bytes of SHA-256("draw", seed,
 * uuid, term) / 2^64 is uniform in [0, 1), and the process is recorded while u < p, with weight
 * 1/p; so the expected weighted sum is the sum over all processes (Horvitz and Thompson, "A
 * generalization of sampling without replacement from a finite universe", 1952). Terms begin at
 * another second for each process. */
struct record_choice collect_settings_choose(const Sonde__V1__CollectSettings *settings,
                                             const char *name, const char *uuid, int64_t now_unix_s,
                                             bool *is_matched);

#endif
