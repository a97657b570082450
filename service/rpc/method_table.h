/* SPDX-License-Identifier: Apache-2.0
 *
 * All methods that a server answers. */
#ifndef SONDE_SERVICE_RPC_METHOD_TABLE_H
#define SONDE_SERVICE_RPC_METHOD_TABLE_H

#include "service/rpc/core/call.h"

extern const struct rpc_method rpc_methods[];
extern const size_t rpc_method_count;

#endif
