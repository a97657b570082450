/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/audit_limit.h"

bool audit_limit_admits(struct audit_limit *limit, int64_t now_ms) {
    if (limit->lines == 0 || now_ms - limit->begin_ms >= AUDIT_LIMIT_SPAN_MS) {
        limit->begin_ms = now_ms;
        limit->lines = 0;
    }
    bool is_admitted = limit->lines < AUDIT_LIMIT_LINES;
    limit->lines += is_admitted;
    limit->left_out += !is_admitted;
    return is_admitted;
}

uint64_t audit_limit_take(struct audit_limit *limit) {
    uint64_t left_out = limit->left_out;
    limit->left_out = 0;
    return left_out;
}
