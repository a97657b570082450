/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/gateway/gateway_fixture.h"

#include "gateway/gateway.h"
#include "gateway/reply/svg_policy.h"
#include "gateway/routes.h"
#include "tests/fuzz/gateway/service.h"
#include "tests/unit/temporary.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_TURNS 3000 /* after which nothing of a client may be left */
#define WAIT_MS   20   /* waits for timeouts of the loop */

static struct gateway gateway;
static char folder[64], path[64];

static void remove_folder(void) {
    unlink(path);
    rmdir(folder);
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static bool step_is_posted;
static size_t calls; /* running after the last step */

/* The service answers from a callback of the loop, as the real client does. */
static void on_post(void *context, struct http_post *post) {
    step_is_posted = false;
    calls = service_step();
}

static void start_gateway(void) {
    static const char *listen = path + 0;
    static char address[80];
    struct sonde_diag diag = {0};
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(temporary_template(folder, sizeof folder)))
        fail("no folder");
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(address, sizeof address, "unix:%s", path);
    listen = address;
    atexit(remove_folder);
    struct http_options options = {.listen = &listen,
                                   .listen_count = 1,
                                   .on_request = gateway_on_request,
                                   .on_post = on_post,
                                   .context = &gateway};
    if (http_server_create(&options, &gateway.server, &diag))
        fail(diag.text);
    gateway.routes = route_table(&gateway.route_count);
    svg_policy_write(gateway.svg_policy, sizeof gateway.svg_policy);
}

static int connect_client(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (void *)&address, sizeof address) != 0)
        fail("no connection");
    return fd;
}

static void listen_to(int fd, struct sonde_buf *answer) {
    char bytes[16384];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        if (answer)
            sonde_buf_append(answer, bytes, (size_t)got);
}

/* One turn of the loop and one step of the service; returns the connections and calls left. */
static size_t turn(int fd, struct sonde_buf *answer, int32_t wait_ms) {
    static struct http_post step;
    if (!step_is_posted)
        http_server_post(gateway.server, &step);
    step_is_posted = true;
    uint32_t connections = http_server_turn(gateway.server, 0);
    if (wait_ms)
        connections = http_server_turn(gateway.server, wait_ms);
    if (fd >= 0)
        listen_to(fd, answer);
    return connections + calls;
}

static void speak(int fd, struct sonde_slice wire, struct sonde_buf *answer) {
    while (wire.len) {
        uint8_t cut = service_script_byte();
        size_t piece = cut & 1 ? 1 + (size_t)(cut >> 1) : wire.len;
        piece = piece < wire.len ? piece : wire.len;
        ssize_t sent = send(fd, wire.data, piece, MSG_NOSIGNAL);
        if (sent < 0 && turn(fd, answer, 0) == 0)
            return; /* the gateway closed the connection */
        wire.data += sent > 0 ? sent : 0;
        wire.len -= sent > 0 ? (size_t)sent : 0;
        turn(fd, answer, 0);
        turn(fd, answer, 0);
    }
}

static void leave(int fd, uint8_t how, struct sonde_buf *answer) {
    struct linger at_once = {1, 0};
    if (how % 4 == 1) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
        fd = -1;
    } else if (how % 4 == 2) {
        shutdown(fd, SHUT_WR);
    }
    for (int i = 0; fd >= 0 && i < 8 + how / 4; i++)
        turn(fd, answer, 0);
    if (fd >= 0)
        close(fd);
    size_t left = 1;
    for (int i = 0; left && i < MAX_TURNS; i++)
        left = turn(-1, NULL, i < 50 ? 0 : WAIT_MS);
    if (left || gateway.relays)
        fail("a connection, call or relay of the client is left");
}

void fixture_play(struct sonde_slice wire, struct sonde_slice script, struct sonde_buf *answer) {
    if (!gateway.server)
        start_gateway();
    service_follow(script);
    uint8_t how = service_script_byte();
    gateway.redact_arguments = how & 0x80;
    gateway.default_target = how & 0x40 ? "redis" : NULL;
    int fd = connect_client();
    speak(fd, wire, answer);
    leave(fd, how & 0x3f, answer);
}
