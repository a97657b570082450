/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/line_limit.h"

bool line_limit_admits(struct line_limit *limit, int64_t now_ms) {
    if (limit->lines == 0 || now_ms - limit->begin_ms >= LINE_LIMIT_SPAN_MS) {
        limit->begin_ms = now_ms;
        limit->lines = 0;
    }
    bool is_admitted = limit->lines < LINE_LIMIT_LINES;
    limit->lines += is_admitted;
    limit->left_out += !is_admitted;
    return is_admitted;
}

uint64_t line_limit_take(struct line_limit *limit) {
    uint64_t left_out = limit->left_out;
    limit->left_out = 0;
    return left_out;
}
