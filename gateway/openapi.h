/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of api/rest/openapi.yaml, compiled in. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_OPENAPI_H
#define SONDE_GATEWAY_OPENAPI_H

#include "api/bytes.h"

struct sonde_slice openapi_text(void);

#endif
