/* SPDX-License-Identifier: Apache-2.0
 *
 * A real ClickHouse server with a configuration, data and ports of its own, for tests and benches.
 * It ends with the program. */
#ifndef SONDE_TESTS_UNIT_STORE_CLICKHOUSE_SERVER_H
#define SONDE_TESTS_UNIT_STORE_CLICKHOUSE_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    char folder[200];
    int http_port, tcp_port, interserver_port;
};

/* Whether clickhouse-server is installed. */
bool server_is_installed(void);
/* A free port of 127.0.0.1. */
int server_free_port(void);
/* Writes the configuration. Ports that are 0 are chosen. extra is XML inside <yandex>, for
 * clusters; it may be "". */
void server_configure(struct server *server, const char *extra);
/* Starts a configured server, and returns when it answers. */
void server_start(struct server *server);
void server_kill(struct server *server); /* SIGKILL, and waits */
/* Seconds of CPU time that it has used. */
double server_cpu_s(const struct server *server);

#endif
