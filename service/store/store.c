/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/store.h"

#include "api/base/clock.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

sonde_err store_stop_check(const struct store_stop *stop, struct sonde_diag *diag) {
    if (!stop)
        return SONDE_OK;
    if (atomic_load(&stop->is_stopped))
        return SONDE_CANCELLED;
    if (!stop->deadline_ns || (uint64_t)clock_ns(CLOCK_MONOTONIC) < stop->deadline_ns)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_DEADLINE_EXCEEDED,
                      "the query took too long: shorten the range or select fewer windows");
}

sonde_err store_put(struct store *store, const struct store_batch *batch,
                    struct store_put_result *result, struct sonde_diag *diag) {
    *result = (struct store_put_result){0};
    sonde_err err = store_check(batch, diag);
    return err ? err : store->ops->put(store, batch, result, diag);
}

uint32_t store_longest_keep_s(const struct store_limits *limits) {
    uint32_t longest_s = limits->keep_s;
    for (size_t i = 0; i < limits->keep_count; i++) {
        uint32_t keep_s = limits->keeps[i].keep_s;
        if (longest_s == 0 || keep_s == 0)
            return 0;
        longest_s = keep_s > longest_s ? keep_s : longest_s;
    }
    return longest_s;
}

sonde_err store_lease_refuse(const struct store_lease_request *wanted, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                      "group \"%s\" has %d controllers already, which is the limit", wanted->group,
                      STORE_MAX_HOLDERS);
}

void store_close(struct store *store) {
    if (store)
        store->ops->close(store);
}

const char *store_clip(struct sonde_arena *arena, const char *text, size_t max) {
    size_t len = strnlen(text, max + 1);
    if (len <= max)
        return text;
    for (len = max; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
        len--;
    return sonde_arena_dup(arena, text, len);
}
