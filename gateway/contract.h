/* SPDX-License-Identifier: Apache-2.0
 *
 * api/rest/openapi.yaml, as it was when the gateway was built. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_CONTRACT_H
#define SONDE_GATEWAY_CONTRACT_H

#include "api/bytes.h"

struct sonde_slice contract_text(void);

#endif
