/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a receiver that is not reached, over HTTP and over gRPC: its name and what to do,
 * and no text of a library. */
#include "service/export/transport.h"
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket of 127.0.0.1 that is bound. */
static int bound(char host[32]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, size), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    snprintf(host, 32, "127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

/* What a request to that host ends with. */
static struct export_answer ask(const char *host, bool is_grpc) {
    struct export_address address = {.is_grpc = is_grpc};
    struct export_headers headers = {.count = 0};
    struct sonde_diag diag = {0};
    snprintf(address.host, sizeof address.host, "%s", host);
    snprintf(address.url, sizeof address.url, "http://%s/x", host);
    const struct transport_options options = {
        .address = &address, .headers = &headers, .content_type = "text/plain"};
    struct transport *transport;
    struct export_answer answer;
    sonde_err err = is_grpc ? grpc_transport_create(&options, &transport, &diag)
                            : http_transport_create(&options, &transport, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    transport->ops->send(transport, sonde_slice_of("x"), 1000, &answer);
    transport->ops->destroy(transport);
    CHECK_INT(answer.outcome, ==, EXPORT_RETRY);
    CHECK(strncmp(answer.text, host, strlen(host)) == 0);
    return answer;
}

TEST(a_receiver_that_is_not_there_accepts_no_connection) {
    char host[32];
    int fd = bound(host);
    for (int is_grpc = 0; is_grpc < 2; is_grpc++)
        CHECK(strstr(ask(host, is_grpc).text, "accepts no connection; check the address"));
    close(fd);
}

TEST(a_receiver_that_accepts_and_hangs_does_not_answer) {
    char host[32];
    int fd = bound(host);
    CHECK_INT(listen(fd, 8), ==, 0);
    struct export_answer answer = ask(host, false);
    CHECK(strstr(answer.text, "did not answer in time"));
    CHECK(answer.is_timeout);
    close(fd);
}

static void *close_one(void *fd) {
    char byte;
    int connection = accept(*(int *)fd, NULL, NULL);
    (void)!read(connection, &byte, 1);
    close(connection);
    return NULL;
}

TEST(a_receiver_that_hangs_up_ended_the_connection) {
    char host[32];
    pthread_t thread;
    int fd = bound(host);
    CHECK_INT(listen(fd, 8), ==, 0);
    CHECK_INT(pthread_create(&thread, NULL, close_one, &fd), ==, 0);
    CHECK(strstr(ask(host, false).text, "ended the connection"));
    pthread_join(thread, NULL);
    close(fd);
}

/* A label has at most 63 bytes, so that no server is asked. */
TEST(a_name_without_an_address_is_named) {
    char host[90];
    memset(host, 'x', 64);
    strcpy(host + 64, ".invalid:9");
    CHECK(strstr(ask(host, false).text, "has no address; check the name"));
}
