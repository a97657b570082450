/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile deliveries: what passes the checks of History.Write must be within the store's bounds. */
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/delivery.h"
#include "tests/fuzz/rpc/check_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena message = {0}, arena = {0};
    struct sonde_diag diag = {0};
    struct history_delivery delivery;
    ProtobufCMessage *request = NULL;
    if (rpc_decode_bytes(data, size, &sonde__v1__write_request__descriptor, &message, &request,
                         &diag) == SONDE_OK &&
        history_delivery_read((const void *)request, &arena, &delivery, &diag) == SONDE_OK)
        check_batch(&delivery.batch);
    sonde_arena_finish(&arena);
    sonde_arena_finish(&message);
    return 0;
}
