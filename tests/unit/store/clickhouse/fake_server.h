/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP server whose answers a test scripts, for failures that a real ClickHouse shows rarely. */
#ifndef SONDE_TESTS_UNIT_STORE_CLICKHOUSE_FAKE_SERVER_H
#define SONDE_TESTS_UNIT_STORE_CLICKHOUSE_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* What happens to a request. */
struct fake_answer {
    int status;       /* 0 = the connection is reset without an answer */
    const char *body; /* len bytes */
    size_t len;
    const char *header; /* one more line, "Name: value"; NULL = none */
    bool is_truncated;  /* announces one byte more than it sends */
    bool is_silent;     /* never answers; the connection stays open */
};

/* request has the first line, the headers and the body. Runs on the server's thread. */
typedef struct fake_answer fake_script(void *context, const char *request);

/* Starts it on a free port, which is returned. It runs until the program ends. */
int fake_server_start(fake_script *script, void *context);

#endif
