/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile on its way from the service to the client, whatever call it comes from: the form that
 * the client gets, and the stream of events that becomes the body. The headers leave when the
 * result is there, so that a failure is a status and a sentence; after them a failure cuts the
 * connection. In the loop only. */
#ifndef SONDE_GATEWAY_REQUEST_PROFILE_ANSWER_H
#define SONDE_GATEWAY_REQUEST_PROFILE_ANSWER_H

#include "gateway/handlers.h"
#include "gateway/request/relay.h"

#define DUMP_NAME_SIZE 12

struct capture_form {
    int format; /* sonde.v1.Format */
    bool raw;   /* pprof without gzip */
    bool coded; /* pprof whose gzip is a Content-Encoding that the client asked for */
    const char *media_type, *disposition, *policy; /* the last two may be NULL */
    char dump[DUMP_NAME_SIZE]; /* "000001.heap", for what refuse says; "" = none, as the next */
    char base[DUMP_NAME_SIZE]; /* that it is compared with */
    bool growth_only;
    /* Answers if the call fails before its result; NULL = relay_refuse. */
    void (*refuse)(struct relay *relay, const struct capture_form *form, sonde_err err,
                   const struct sonde_diag *diag);
};

/* From `output=`, then the headers or the path's own. */
SONDE_MUST_USE sonde_err capture_choose(const struct visit *visit,
                                        const struct profile_setup *setup, int default_format,
                                        struct capture_form *form, struct sonde_diag *diag);

/* The same for a whole visit: false when the query was bad, which is answered then. */
bool capture_read_form(struct visit *visit, const struct profile_setup *setup, int default_format,
                       struct capture_form *form);

/* Starts the call, whose answers are CaptureEvents, and answers the visit with them. For HEAD only
 * the target is checked. */
void capture_start(struct visit *visit, const struct capture_form *form,
                   const struct client_method *method, const ProtobufCMessage *request,
                   uint32_t deadline_ms);

/* What HEAD gets: only the target is checked. */
void capture_check(struct visit *visit, const struct capture_form *form);
/* In two steps, for a call that depends on another one. */
struct relay *capture_create(struct visit *visit, const struct capture_form *form);
void capture_call(struct relay *relay, const struct client_method *method,
                  const ProtobufCMessage *request, uint32_t deadline_ms);
const struct capture_form *capture_form_of(const struct relay *relay);

/* The rendering that a form asks of the service. */
Sonde__V1__Rendering capture_rendering(const struct capture_form *form);

/* Reads `seconds` and `frequency`. */
SONDE_MUST_USE sonde_err capture_read_times(const struct query *query, uint64_t *seconds,
                                            uint64_t *frequency, struct sonde_diag *diag);

/* Reads `mode` and `max_overhead`: a share, 0.01, or 1%. */
struct capture_mode {
    int mode; /* sonde.v1.CpuMode */
    double max_overhead;
};
SONDE_MUST_USE sonde_err capture_read_mode(const struct query *query, struct capture_mode *mode,
                                           struct sonde_diag *diag);

/* How long after its end a capture's result may still be coming. */
#define CAPTURE_GRACE_MS 60000

#endif
