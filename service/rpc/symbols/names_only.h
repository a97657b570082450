/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a Symbolize request with names_only: each name once, and one number per frame.
 * Names of C++ templates have hundreds of bytes, and a thousand addresses share a few hundred
 * names. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_SYMBOLS_NAMES_ONLY_H
#define SONDE_SERVICE_RPC_SYMBOLS_NAMES_ONLY_H

#include "service/engine/engine.h"

#include <grpc/slice.h>

/* A packed SymbolizeResponse. name_allocators: unnamed code of allocators gets the name of an
 * exported function. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err names_only_pack(const struct engine_symbol *symbols, size_t count,
                                         bool name_allocators, grpc_slice *packed);

#endif
