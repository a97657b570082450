/* SPDX-License-Identifier: Apache-2.0
 *
 * The names in DeepFlow's tag_filter, `pod_ns = 'app' AND host_hostname != 'a'`, and the labels
 * that they are in Sonde. A tag that Sonde never fills is passed on: a label that no window has
 * equals "". Everything but the names is left to the service, which parses the filter. Thread
 * safety: any thread. */
#ifndef SONDE_GATEWAY_FAMILIES_HISTORY_TAG_FILTER_H
#define SONDE_GATEWAY_FAMILIES_HISTORY_TAG_FILTER_H

#include "api/error.h"

/* Replaces the names in place. The filter keeps its length and the position of everything else, so
 * that places in the service's errors are right. SONDE_INVALID_ARGUMENT for a name that DeepFlow
 * does not document, with its place. */
SONDE_MUST_USE sonde_err tag_filter_translate(char *filter, struct sonde_diag *diag);

#endif
