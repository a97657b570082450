/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of `sonde leaks`, as text and as JSON. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LEAKS_PRINT_H
#define SONDE_CLIENTS_CLI_VERBS_LEAKS_PRINT_H

#include "clients/cli/verbs/leaks/blocks.h"
#include "clients/cli/verbs/leaks/sites.h"

struct leak_row {
    const struct site *site;
    struct leak_verdict verdict;
    const char *version; /* that appeared when the growth began; NULL = none did */
};

struct leak_report {
    const struct blocks *blocks;
    size_t last, recorded; /* the last block with a record; how many have one */
    const struct sites *sites;
    const struct leak_row *rows; /* with a verdict: leaks first, then by their growth */
    size_t count;
    bool begins_late; /* the first record lies inside the range that was asked for */
};

void leaks_print_text(const struct leak_report *report);
/* SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err leaks_print_json(const struct leak_report *report);

#endif
