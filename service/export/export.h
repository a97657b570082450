/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends what the recorder records to other systems: OTLP profiles to a collector, pprof files to
 * Pyroscope. Each destination has a queue and a thread of its own, so a slow one delays neither
 * sampling nor history nor the other one.
 *
 * Thread safety: one thread creates, stops and destroys; the rest, any thread. */
#ifndef SONDE_SERVICE_EXPORT_EXPORT_H
#define SONDE_SERVICE_EXPORT_EXPORT_H

#include "api/settings/options.h"
#include "service/engine/record/record.h"
#include "service/export/sender.h"

#define EXPORT_MAX_DESTINATIONS 2
#define EXPORT_STOP_MS          3000 /* to send what waits when the service ends */

/* The settings of one destination. */
struct export_settings {
    const char *url;                  /* NULL = none */
    struct sonde_option_list headers; /* "Name: value" */
    const char *header_file, *ca_file, *cert_file, *key_file;
};

struct export_options {
    struct export_settings otlp, pyroscope;
    uint64_t queue_mib;             /* of each destination; 0 = 64 */
    uint32_t retry_ms, deadline_ms; /* as in sender.h */
    void (*log)(const char *line);
};

struct exporter;

/* *exporter is NULL if the options name no destination. Connects to nothing yet. Errors are about
 * the settings: SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_PERMISSION_DENIED; SONDE_NOT_AVAILABLE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err export_create(const struct export_options *options,
                                       struct exporter **exporter, struct sonde_diag *diag);
/* The record stays the caller's; nobody may change its profile any more. */
void export_record(struct exporter *exporter, const struct record *record);
/* Returns the number of destinations, and their states. */
size_t export_states(struct exporter *exporter,
                     struct sender_state states[EXPORT_MAX_DESTINATIONS]);
/* Sends what waits, for EXPORT_STOP_MS at most. After the last record. NULL is fine. */
void export_stop(struct exporter *exporter);
void export_destroy(struct exporter *exporter); /* NULL is fine */

#endif
