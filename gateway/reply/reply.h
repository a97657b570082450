/* SPDX-License-Identifier: Apache-2.0
 *
 * Immediate answers: texts, and errors in the shape of a path's family. Bytes other than printable
 * ASCII and line ends are escaped in errors. In the loop only. */
#ifndef SONDE_GATEWAY_REPLY_REPLY_H
#define SONDE_GATEWAY_REPLY_REPLY_H

#include "gateway/gateway.h"
#include "gateway/request/forwarded.h"

#define REPLY_TEXT "text/plain; charset=utf-8"
#define REPLY_JSON "application/json"
#define REPLY_HTML "text/html; charset=utf-8"

void reply_text(struct http_request *request, int status, const char *text);
void reply_bytes(struct http_request *request, const char *content_type, struct sonde_slice body);

/* Answers with an error of this status and text, in the family's shape. */
void reply_status(struct http_request *request, enum family family, int status, const char *reason,
                  const char *text);
/* The same with status and reason from the error table. diag may be NULL. */
void reply_error(struct http_request *request, enum family family, sonde_err err,
                 const struct sonde_diag *diag);
/* 405 with the allowed methods. */
void reply_method(struct http_request *request, const struct route *route);
/* What addresses in answers begin with: the path below which a proxy serves the gateway, or "". */
void reply_base(struct http_request *request, char base[FORWARDED_PREFIX_SIZE]);
/* 307 to `where`. */
void reply_elsewhere(struct http_request *request, const char *where);
/* 404, "path not found". */
void reply_no_path(struct http_request *request, enum family family);
/* The value of an Allow header: "GET,HEAD,POST". */
const char *reply_allowed(const struct route *route);

#endif
