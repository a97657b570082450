/* SPDX-License-Identifier: Apache-2.0
 *
 * Pyroscope's way to select profiles, as a selection of Sonde's history: service_name is the label
 * service, __profile_type__ is the event. Texts live in the arena. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_GRAFANA_SELECT_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_GRAFANA_SELECT_H

#include "api/bytes.h"
#include "api/error.h"
#include "api/profile/event.h"
#include "proto/sonde/v1/history.pb-c.h"

#define GRAFANA_SERVICE "service_name"
#define GRAFANA_TYPE    SONDE_TYPE_LABEL

/* {service_name="x"} with Sonde's names, in place; everything else keeps its position. */
void grafana_translate_selector(char *selector);
/* Sonde's name of a label, and Pyroscope's. Borrowed. */
const char *grafana_label_to_sonde(const char *name);
const char *grafana_label_from_sonde(const char *name);

/* UTF-8. */
bool grafana_is_text(const char *text);
/* Milliseconds; both 0: all the time until now. SONDE_INVALID_ARGUMENT if the range is empty. */
SONDE_MUST_USE sonde_err grafana_read_range(int64_t start_ms, int64_t end_ms,
                                            Sonde__V1__Selection *selection,
                                            struct sonde_diag *diag);
/* Reads {a="b"}, or ID{a="b"} with the id of a type. Of several selectors, at most one may select
 * anything. */
SONDE_MUST_USE sonde_err grafana_read_matchers(char *const *matchers, size_t count,
                                               struct sonde_arena *arena,
                                               Sonde__V1__Selection *selection,
                                               struct sonde_diag *diag);
SONDE_MUST_USE sonde_err grafana_read_type(const char *type_id, Sonde__V1__Selection *selection,
                                           struct sonde_diag *diag);

#endif
