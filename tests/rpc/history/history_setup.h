/* SPDX-License-Identifier: Apache-2.0
 *
 * A service with the fake store (tests/unit/store/fake_store.h), and calls of History that block.
 * Thread safety: one thread at a time. */
#ifndef SONDE_TESTS_RPC_HISTORY_HISTORY_SETUP_H
#define SONDE_TESTS_RPC_HISTORY_HISTORY_SETUP_H

#include "api/draw/draw.h"
#include "tests/rpc/recording.h"
#include "tests/rpc/setup.h"

struct history_setup {
    struct setup base;
    struct store *store;
    /* Of the last answer in chunks: its first message and its bytes. */
    Sonde__V1__ResultStart *start;
    struct sonde_buf document;
};

void history_setup_begin(struct history_setup *setup, bool has_engine);
void history_setup_end(struct history_setup *setup);

/* One message of a Write call of its own; the caller frees the answer. Fails the test unless the
 * call succeeds. */
Sonde__V1__WriteResponse *history_write(struct history_setup *setup,
                                        const Sonde__V1__WriteRequest *request);
/* The same for a call that is expected to fail. */
sonde_err history_try_write(struct history_setup *setup, const Sonde__V1__WriteRequest *request,
                            struct sonde_diag *diag);
/* QueryProfile or QueryDiff: fills start and document. */
sonde_err history_profile(struct history_setup *setup, const struct client_method *method,
                          const ProtobufCMessage *request, struct sonde_diag *diag);
/* A method with one answer, which the caller frees; NULL if it fails. err NULL: it must succeed. */
void *history_ask(struct history_setup *setup, const struct client_method *method,
                  const ProtobufCMessage *request, sonde_err *err, struct sonde_diag *diag);

#endif
