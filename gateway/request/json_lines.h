/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that is lines of JSON, as they come. The reader's speed pulls: one line is held here,
 * the call's next message is asked for when it has left. The first member of a handler's state, and
 * an exchange itself. A 200 that was sent cannot be taken back, so the last line tells how it
 * ended. In the loop only. */
#ifndef SONDE_GATEWAY_REQUEST_JSON_LINES_H
#define SONDE_GATEWAY_REQUEST_JSON_LINES_H

#include "gateway/exchange.h"

#define LINES_TYPE "application/x-ndjson"

struct lines {
    struct exchange exchange;
    bool started, in_flight; /* headers have left; a line is on its way */
    bool over;               /* no call any more: `line` is the last one */
    struct sonde_buf line;
};

/* A message of the call that is running becomes a line; the next one follows when it has left. */
void lines_send(struct lines *lines, const ProtobufCMessage *message);
/* In on_end: text is the last line, without its end. */
void lines_end(struct lines *lines, struct sonde_slice text);
/* The same with {"code":...,"status":...,"message":text}. */
void lines_end_with_status(struct lines *lines, sonde_err err, const char *text);
/* What HEAD gets; takes the request. */
void lines_answer_head(struct exchange *exchange);
/* For exchange_events.finish. */
void lines_finish(struct exchange *exchange);

#endif
