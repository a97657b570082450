/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer of JSON lines (application/x-ndjson), one per message of a stream. The next message is
 * read when the previous line has been sent, so a slow reader slows the stream down and one line is
 * in memory. The status 200 has left by the time a stream fails, so the last line says how it
 * ended. `struct lines` is a handler's state, or its first member. In the loop only. */
#ifndef SONDE_GATEWAY_REPLY_JSON_LINES_H
#define SONDE_GATEWAY_REPLY_JSON_LINES_H

#include "gateway/reply/relay.h"

#define LINES_TYPE "application/x-ndjson"

struct lines {
    struct relay relay;
    char end_reason[64]; /* message of the last line if the stream ends without an error */
    bool started;        /* the headers have been sent */
    bool in_flight;      /* a line is being sent */
    bool over;           /* the call has ended; `line` is the last one */
    struct sonde_buf line;
};

/* In on_message: sends the message as a line, then reads the next one. */
void lines_send(struct lines *lines, const ProtobufCMessage *message);
/* In on_end: sends text as the last line; text has no line end. */
void lines_end(struct lines *lines, struct sonde_slice text);
/* In on_end: sends {"code":...,"status":...,"message":text} as the last line. */
void lines_end_with_status(struct lines *lines, sonde_err err, const char *text);
/* For relay_events.on_end: lines_end_with_status with the error or end_reason. A call that fails
 * before its first message is refused with its HTTP status. */
void lines_on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag);
/* For relay_events.finish. */
void lines_finish(struct relay *relay);
/* Answers HEAD; takes the request. */
void lines_answer_head(struct relay *relay);

#endif
