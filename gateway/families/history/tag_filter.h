/* SPDX-License-Identifier: Apache-2.0
 *
 * The names in DeepFlow's tag_filter, `pod_ns = 'app' AND host_hostname != 'a'`, and the labels
 * that they are in Sonde. A tag that Sonde never fills is passed on: a label that no window has
 * equals "". A filter can also use the labels of history. Everything but the names is left to the
 * service, which parses the filter. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_FAMILIES_HISTORY_TAG_FILTER_H
#define SONDE_GATEWAY_FAMILIES_HISTORY_TAG_FILTER_H

#include "api/error.h"

#include <stddef.h>

struct tag_labels {
    char *const *names;
    size_t count;
};

/* Replaces the names in place. The filter keeps its length and the position of everything else, so
 * that places in the service's errors are right. A name that DeepFlow does not document must be one
 * of the labels: SONDE_INVALID_ARGUMENT, with its place and what it may be. labels NULL: they are
 * not known yet, and such a name is SONDE_NOT_FOUND. The filter is changed in both cases. */
SONDE_MUST_USE sonde_err tag_filter_translate(char *filter, const struct tag_labels *labels,
                                              struct sonde_diag *diag);

#endif
