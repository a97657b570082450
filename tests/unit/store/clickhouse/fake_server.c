/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/clickhouse/fake_server.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct fake {
    int fd;
    fake_script *script;
    void *context;
};

/* Reads headers and body. Binary bodies are cut at their first zero byte, which does no harm. */
static char *read_request(int fd) {
    size_t size = 1 << 20, len = 0, wanted = SIZE_MAX;
    char *text = calloc(1, size + 1);
    while (len < wanted && len < size) {
        ssize_t got = recv(fd, text + len, size - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        char *end = memmem(text, len, "\r\n\r\n", 4), *length = strstr(text, "Content-Length: ");
        if (end && wanted == SIZE_MAX)
            wanted = (size_t)(end - text) + 4 + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    if (len >= wanted)
        return text;
    free(text);
    return NULL;
}

static void answer(int fd, struct fake_answer answer) {
    char head[400];
    snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%.200s%s\r\n",
             answer.status, answer.len + answer.is_truncated, answer.header ? answer.header : "",
             answer.header ? "\r\n" : "");
    send(fd, head, strlen(head), MSG_NOSIGNAL);
    send(fd, answer.body, answer.len, MSG_NOSIGNAL);
}

static void serve(struct fake *fake, int fd) {
    char *request;
    while ((request = read_request(fd))) {
        struct fake_answer said = fake->script(fake->context, request);
        struct linger reset = {1, 0};
        free(request);
        if (said.is_silent)
            return; /* open until the program ends */
        if (said.status)
            answer(fd, said);
        if (said.status == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (said.status == 0 || said.is_truncated)
            break;
    }
    close(fd);
}

struct connection {
    struct fake *fake;
    int fd;
};

static void *run_connection(void *context) {
    struct connection connection = *(struct connection *)context;
    free(context);
    serve(connection.fake, connection.fd);
    return NULL;
}

static void *run(void *context) {
    struct fake *fake = context;
    for (;;) {
        struct connection *connection = malloc(sizeof *connection);
        pthread_t thread;
        *connection = (struct connection){fake, accept(fake->fd, NULL, NULL)};
        pthread_create(&thread, NULL, run_connection, connection);
        pthread_detach(thread);
    }
    return NULL;
}

int fake_server_start(fake_script *script, void *context) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    struct fake *fake = malloc(sizeof *fake);
    pthread_t thread;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fake = (struct fake){socket(AF_INET, SOCK_STREAM, 0), script, context};
    CHECK(bind(fake->fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fake->fd, 16) == 0);
    getsockname(fake->fd, (struct sockaddr *)&address, &size);
    CHECK(pthread_create(&thread, NULL, run, fake) == 0);
    pthread_detach(thread);
    return ntohs(address.sin_port);
}
