/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile OTLP profiles: what is made of them must be within the store's bounds. */
#include "service/rpc/core/server_state.h"
#include "service/rpc/otlp/delivery.h"
#include "tests/fuzz/rpc/check_batch.h"

#define OTLP(name) opentelemetry__proto__collector__profiles__v1development__##name

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena message = {0};
    struct sonde_diag diag = {0};
    struct otlp_delivery delivery;
    ProtobufCMessage *request = NULL;
    if (rpc_decode_bytes(data, size, &OTLP(export_profiles_service_request__descriptor), &message,
                         &request, &diag) == SONDE_OK) {
        if (otlp_delivery_read((const void *)request, 1700000000000000000, &delivery, &diag) ==
            SONDE_OK)
            check_batch(&delivery.batch);
        otlp_delivery_finish(&delivery);
    }
    sonde_arena_finish(&message);
    return 0;
}
