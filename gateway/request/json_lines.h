/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer of lines of JSON, one per message of a stream. The reader's speed pulls: a line is held
 * here until it has been sent, and only then the call's next message is read. `struct lines` is the
 * first member of a handler's state and begins with its relay. The status 200 has left by the time
 * a stream fails, so the last line says how it ended. In the loop only. */
#ifndef SONDE_GATEWAY_REQUEST_JSON_LINES_H
#define SONDE_GATEWAY_REQUEST_JSON_LINES_H

#include "gateway/request/relay.h"

#define LINES_TYPE "application/x-ndjson"

struct lines {
    struct relay relay;
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
void lines_answer_head(struct relay *relay);
/* For relay_events.finish. */
void lines_finish(struct relay *relay);

#endif
