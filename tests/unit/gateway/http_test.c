/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server without a gateway: h2o's requirements on its callers. */
#include "gateway/http/http.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BODY_BYTES 100000 /* one write takes all of it, and leaves a unix socket full */
#define MAX_TURNS  1000

static struct {
    char folder[32], path[64];
    struct http_server *server;
    struct http_request *request;
    struct http_post post;
    bool answers; /* else requests wait until the server stops */
    uint32_t ready, gone;
} scene;

static void on_ready(void *context) {
    scene.ready++;
}

static void on_gone(void *context) {
    scene.gone++;
}

static void on_request(void *context, struct http_request *request) {
    scene.request = request;
    http_request_on_gone(request, on_gone, NULL);
    if (scene.answers)
        http_server_post(scene.server, &scene.post);
}

static void on_post(void *context, struct http_post *post) {
    static char body[BODY_BYTES];
    const struct http_answer answer = {.status = 200, .no_gzip = true};
    http_stream_start(scene.request, &answer, HTTP_UNKNOWN, on_ready, NULL);
    http_stream_send(scene.request, (struct sonde_slice){body, sizeof body});
}

static void open_server(void) {
    static char address[80];
    static const char *const listen[] = {address};
    struct sonde_diag diag = {0};
    signal(SIGPIPE, SIG_IGN);
    memset(&scene, 0, sizeof scene);
    CHECK(mkdtemp(temporary_template(scene.folder, sizeof scene.folder)) != NULL);
    snprintf(scene.path, sizeof scene.path, "%s/s", scene.folder);
    snprintf(address, sizeof address, "unix:%s", scene.path);
    const struct http_options options = {
        .listen = listen, .listen_count = 1, .on_request = on_request, .on_post = on_post};
    CHECK_INT(http_server_create(&options, &scene.server, &diag), ==, SONDE_OK);
}

static void close_server(void) {
    http_server_destroy(scene.server);
    rmdir(scene.folder);
}

static int connect_client(const char *request) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, scene.path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && connect(fd, (void *)&address, sizeof address) == 0);
    CHECK_INT(write(fd, request, strlen(request)), ==, strlen(request));
    return fd;
}

static void read_all(int fd) {
    char bytes[16384];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

/* issue 11: h2o aborted in write_pending. A post used to be handled between two runs of h2o's loop.
 * An answer written there filled the socket just when h2o was about to update its polls: h2o polled
 * the socket for a write that had already completed, and found no callback once the reader had made
 * room. */
TEST(an_answer_posted_during_the_request_leaves_no_poll_behind) {
    open_server();
    scene.answers = true;
    int fd = connect_client("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (int i = 0; scene.ready == 0 && i < MAX_TURNS; i++)
        http_server_turn(scene.server, 1);
    CHECK_INT(scene.ready, ==, 1);
    read_all(fd);
    for (int i = 0; i < 10; i++)
        http_server_turn(scene.server, 1);
    close(fd);
    while (http_server_turn(scene.server, 1))
        ;
    close_server();
}

TEST(a_server_that_stops_answers_503_to_requests_that_wait) {
    char answer[64] = "";
    open_server();
    int fd = connect_client("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (int i = 0; !scene.request && i < MAX_TURNS; i++)
        http_server_turn(scene.server, 1);
    CHECK(scene.request != NULL);
    http_server_stop(scene.server);
    http_server_run(scene.server, 0, NULL);
    CHECK_INT(scene.gone, ==, 1);
    CHECK_INT(read(fd, answer, sizeof answer - 1), >, 0);
    CHECK(strncmp(answer, "HTTP/1.1 503 ", 13) == 0);
    close(fd);
    close_server();
}

/* A port of 0 lets the kernel choose, so the IPv4 listener asks for the port that IPv6 got. */
TEST(an_ipv6_listener_leaves_ipv4_alone_if_it_is_told_to) {
    static char address[64];
    static const char *v6[] = {"[::]:0"}, *v4[] = {address};
    for (int only = 0; only < 2; only++) {
        struct http_server *first, *second;
        struct sonde_diag diag = {0};
        struct http_options options = {
            .listen = v6, .listen_count = 1, .on_request = on_request, .v6_only = only};
        if (http_server_create(&options, &first, &diag))
            check_skip("this machine has no IPv6");
        snprintf(address, sizeof address, "0.0.0.0:%s",
                 strrchr(http_server_address(first, 0), ':') + 1);
        options.listen = v4;
        sonde_err err = http_server_create(&options, &second, &diag);
        CHECK_INT(err == SONDE_OK, ==, only);
        if (!err)
            http_server_destroy(second);
        http_server_destroy(first);
    }
}
