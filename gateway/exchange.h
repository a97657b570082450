/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and the RPC it became. An exchange is the first member of its handler's state; it
 * begins with exchange_create, and ends by itself when the request has been answered (or is gone)
 * and no call runs. A request that goes away cancels its call; a handler's callbacks run only while
 * there is still somebody to answer. In the loop only. */
#ifndef SONDE_GATEWAY_EXCHANGE_H
#define SONDE_GATEWAY_EXCHANGE_H

#include "clients/c/client.h"
#include "gateway/gateway.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct exchange;

struct exchange_events {
    /* One message of the call. A stream's next message comes after exchange_pull. */
    void (*on_message)(struct exchange *exchange, const ProtobufCMessage *message);
    /* The call has ended, well or not. May start the next call, or answer. NULL: errors are
     * answered, a good end must have been answered by on_message. */
    void (*on_end)(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag);
    /* Frees what the state owns, not the state. NULL = nothing. */
    void (*finish)(struct exchange *exchange);
};

struct exchange {
    struct gateway *gateway;
    struct http_request *request; /* NULL: answered or gone */
    struct client_call *call;     /* NULL: none runs */
    const struct exchange_events *events;
    void (*finish)(struct exchange *exchange);
    /* A chunk of a result, to be destroyed, instead of its message; NULL: all are messages. */
    void (*on_chunk)(struct exchange *exchange, struct client_chunk *chunk);
    enum family family;
    struct target_choice target;
    char *token;
    /* What comes after a question that another call depends on. */
    void (*on_found)(struct exchange *exchange), (*on_missing)(struct exchange *exchange);
    bool inside, pulled; /* in on_message; exchange_pull was called there */
    struct sonde_diag diag;
};

/* size of the state, which is zeroed. Never NULL: memory that runs out ends the process. */
void *exchange_create(struct visit *visit, size_t size, const struct exchange_events *events);
/* deadline_ms 0 = none. */
void exchange_call(struct exchange *exchange, const struct client_method *method,
                   const ProtobufCMessage *request, uint32_t deadline_ms);
void exchange_pull(struct exchange *exchange);
/* The request, for the one answer: the exchange has none from then on. */
struct http_request *exchange_take_request(struct exchange *exchange);
/* Answers with the error; a target that was not clear is answered with the list of those there are.
 */
void exchange_refuse(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag);
/* The same for a start that is refused because it runs already: the service's sentence says since
 * when and by whom; clients look for the words in front. */
void exchange_refuse_busy(struct exchange *exchange, const char *words,
                          const struct sonde_diag *diag);
/* "REST client ADDRESS": told to whoever is refused. */
#define EXCHANGE_OWNER_SIZE 64
const char *exchange_owner(const struct visit *visit, char owner[EXCHANGE_OWNER_SIZE]);
/* For callbacks that come from outside a call (on_ready): ends the exchange if it is over. */
void exchange_settle(struct exchange *exchange);

/* The chosen target as a message; lives as long as the choice. */
Sonde__V1__TargetSelector exchange_selector(const struct target_choice *target);

/* For HEAD and for answers that are the same for every target: asks the service whether the target
 * is there, then calls on_found, which answers. */
void exchange_check_target(struct exchange *exchange, void (*on_found)(struct exchange *exchange));

#endif
