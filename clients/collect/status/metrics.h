/* SPDX-License-Identifier: Apache-2.0
 *
 * A report in Prometheus' text format. */
#ifndef SONDE_CLIENTS_COLLECT_STATUS_METRICS_H
#define SONDE_CLIENTS_COLLECT_STATUS_METRICS_H

#include "api/bytes.h"
#include "clients/collect/controller/report.h"

void metrics_text(struct sonde_buf *out, const struct controller_report *report);

#endif
