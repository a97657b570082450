/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that need no RPC: texts, and errors in the shape of their family. Nothing of the request
 * is in them but what query_quote made harmless. In the loop only. */
#ifndef SONDE_GATEWAY_REPLY_REPLY_H
#define SONDE_GATEWAY_REPLY_REPLY_H

#include "gateway/gateway.h"

#define REPLY_TEXT "text/plain; charset=utf-8"
#define REPLY_JSON "application/json"
#define REPLY_HTML "text/html; charset=utf-8"

void reply_text(struct http_request *request, int status, const char *text);
void reply_bytes(struct http_request *request, const char *content_type, struct sonde_slice body);

/* The family's shape around a sentence. */
void reply_status(struct http_request *request, enum family family, int status, const char *reason,
                  const char *text);
/* Status, reason and, where diag has no text, the sentence come from the error table. */
void reply_error(struct http_request *request, enum family family, sonde_err err,
                 const struct sonde_diag *diag);
/* 405 with the methods that there are. */
void reply_method(struct http_request *request, const struct route *route);
/* 307 to where. */
void reply_elsewhere(struct http_request *request, const char *where);
/* 404, "path not found". */
void reply_no_path(struct http_request *request, enum family family);
/* "GET,HEAD,POST" */
const char *reply_allowed(const struct route *route);

#endif
