/* SPDX-License-Identifier: Apache-2.0
 *
 * How long history is kept, as people write it: "90m", "12h", "7d", "4w". Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_PROGRAMS_KEEP_TEXT_H
#define SONDE_SERVICE_PROGRAMS_KEEP_TEXT_H

#include "api/error.h"

#define KEEP_MIN_S 3600u
#define KEEP_MAX_S (3660u * 86400u) /* ten years */

/* "0" = for ever. SONDE_INVALID_ARGUMENT names the option. */
SONDE_MUST_USE sonde_err keep_text_read(const char *option, const char *text, uint32_t *seconds,
                                        struct sonde_diag *diag);

#endif
