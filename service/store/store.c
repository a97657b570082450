/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/store.h"

#include <string.h>

bool store_event_is_state(const char *event) {
    return strcmp(event, STORE_MEM_INUSE) == 0;
}

const char *store_event_unit(const char *event) {
    return strncmp(event, "mem-", 4) == 0 ? "bytes" : "nanoseconds";
}

sonde_err store_put(struct store *store, const struct store_batch *batch,
                    struct store_put_result *result, struct sonde_diag *diag) {
    *result = (struct store_put_result){0};
    sonde_err err = store_check(batch, diag);
    return err ? err : store->ops->put(store, batch, result, diag);
}

void store_close(struct store *store) {
    if (store)
        store->ops->close(store);
}
