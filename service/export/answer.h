/* SPDX-License-Identifier: Apache-2.0
 *
 * What a receiver's answer means. Its bytes are not trusted: texts are cut and cleaned, numbers are
 * bounded. Thread safety: any thread. */
#ifndef SONDE_SERVICE_EXPORT_ANSWER_H
#define SONDE_SERVICE_EXPORT_ANSWER_H

#include "api/bytes.h"

#include <stdint.h>

#define ANSWER_MAX_BYTES  (64u << 10)
#define ANSWER_MAX_WAIT_S 300 /* a receiver that asks for a longer pause is asked again earlier */

enum export_outcome {
    EXPORT_DONE,
    EXPORT_RETRY,     /* the same request may succeed later */
    EXPORT_TOO_LARGE, /* smaller requests may succeed */
    EXPORT_REFUSED,   /* it would be refused again */
};

struct export_answer {
    enum export_outcome outcome;
    bool is_timeout;   /* RETRY: there was no answer in time */
    long status;       /* of HTTP; 0 = there was no answer, or it is gRPC's */
    uint32_t wait_ms;  /* RETRY: what the receiver asks for; 0 = nothing */
    uint64_t rejected; /* DONE: profiles that OTLP's partial_success refuses */
    char text[200];    /* why; "" = unknown */
};

/* retry_after_s: from the header; <= 0 = none. is_protobuf: the body is a message; with an error
 * status it is a google.rpc.Status. */
void answer_of_http(long status, int64_t retry_after_s, struct sonde_slice body, bool is_protobuf,
                    struct export_answer *answer);
/* extra: "grpc-status-details-bin". */
void answer_of_grpc(int status, const char *message, struct sonde_slice extra,
                    struct export_answer *answer);
/* Reads the ExportProfilesServiceResponse of a request that was accepted. */
void answer_read_partial(struct sonde_slice body, struct export_answer *answer);

#endif
