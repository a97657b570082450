/* SPDX-License-Identifier: Apache-2.0
 *
 * What address.c and http.c share. */
#ifndef SONDE_SERVICE_STORE_CLICKHOUSE_HTTP_SERVER_H
#define SONDE_SERVICE_STORE_CLICKHOUSE_HTTP_SERVER_H

#include "service/http/library.h"
#include "service/locks.h"
#include "service/store/clickhouse/http/http.h"

#define HTTP_MAX_IDLE 8

struct http_server {
    char url[600], name[560];
    struct http_shared *shared;
    char *user, *password;     /* libcurl's; NULL = none */
    struct lock lock;          /* the rest */
    void *idle[HTTP_MAX_IDLE]; /* easy handles, each with a connection that is kept alive */
    size_t idle_count;
};

#endif
