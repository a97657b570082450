/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Accepted numbers are within their bounds, and errors are printable. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct query query;
    struct sonde_diag diag = {0};
    uint64_t seconds = 10, n = 1;
    double delay = 0.01;
    bool pprof = true;
    query_parse(&query, (struct sonde_slice){(const char *)data, size});
    sonde_err err = query_whole(&query, "seconds", 1, 3600, &seconds, &diag);
    err = err ? err : query_count(&query, "n", 1, 1000000000000, &n, &diag);
    err = err ? err : query_decimal(&query, "delay", 0.0001, 2, &delay, &diag);
    err = err ? err : query_flag(&query, "pprof", &pprof, &diag);
    if (seconds < 1 || seconds > 3600 || n < 1 || n > 1000000000000 || !(delay >= 0.0001) ||
        !(delay <= 2) || (err && !diag.text[0]))
        __builtin_trap();
    for (const char *byte = diag.text; *byte; byte++)
        if (*byte < ' ' || *byte > '~')
            __builtin_trap();
    query_finish(&query);
    return 0;
}
