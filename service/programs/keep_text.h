/* SPDX-License-Identifier: Apache-2.0
 *
 * How long history is kept, as people write it: "90m", "12h", "7d", "4w". Thread safety: any
 * thread; one at a time for rules. */
#ifndef SONDE_SERVICE_PROGRAMS_KEEP_TEXT_H
#define SONDE_SERVICE_PROGRAMS_KEEP_TEXT_H

#include "api/settings/options.h"
#include "service/store/store.h"

#define KEEP_MIN_S 3600u
#define KEEP_MAX_S (3660u * 86400u) /* ten years */

/* "0" = for ever. SONDE_INVALID_ARGUMENT names the option. */
SONDE_MUST_USE sonde_err keep_text_read(const char *option, const char *text, uint32_t *seconds,
                                        struct sonde_diag *diag);

#define KEEP_MAX_RULES 32

/* Zeroed memory is fine for keep_rules_finish. */
struct keep_rules {
    uint32_t keep_s; /* of windows that no rule matches */
    struct store_keep items[KEEP_MAX_RULES];
    struct selector *selectors[KEEP_MAX_RULES]; /* of the items */
    size_t count;
};

/* Each value is a time, or SELECTOR=TIME for windows with such labels (service/store/selector;
 * Prometheus' form may lack its braces). Without a value that is just a time, keep_s is default_s.
 * SONDE_INVALID_ARGUMENT names the option and the value. */
SONDE_MUST_USE sonde_err keep_rules_read(const char *option, const struct sonde_option_list *values,
                                         uint32_t default_s, struct keep_rules *rules,
                                         struct sonde_diag *diag);
/* Sets what the rules say. They must outlive the store. */
void keep_rules_limit(const struct keep_rules *rules, struct store_limits *limits);
void keep_rules_finish(struct keep_rules *rules);

#endif
