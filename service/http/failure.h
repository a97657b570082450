/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a request of libcurl failed. */
#ifndef SONDE_SERVICE_HTTP_FAILURE_H
#define SONDE_SERVICE_HTTP_FAILURE_H

#include "api/text/unreached.h"
#include "service/http/library.h"

/* Of the handle's last request, which ended with that code. The handle's thread. */
enum unreached http_failure(CURL *handle, CURLcode code);

#endif
