/* SPDX-License-Identifier: Apache-2.0
 *
 * The lower bound for any gateway that uses h2o: one thread with h2o that answers every request
 * with the bytes of a file. floor FILE prints "http: URL". */
#include <h2o.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static h2o_iovec_t body;
static h2o_accept_ctx_t accept_context;

static int on_request(h2o_handler_t *handler, h2o_req_t *req) {
    static h2o_generator_t generator;
    (void)handler;
    req->res.status = 200;
    req->res.reason = "OK";
    req->res.content_length = body.len;
    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                   H2O_STRLIT("application/json"));
    h2o_start_response(req, &generator);
    h2o_send(req, &body, 1, H2O_SEND_STATE_FINAL);
    return 0;
}

static void on_accept(h2o_socket_t *listener, const char *err) {
    h2o_socket_t *sock = err ? NULL : h2o_evloop_socket_accept(listener);
    if (sock)
        h2o_accept(&accept_context, sock);
}

static h2o_iovec_t read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(64 << 20);
    if (!file || !bytes) {
        perror(path);
        exit(1);
    }
    size_t len = fread(bytes, 1, 64 << 20, file);
    fclose(file);
    return h2o_iovec_init(bytes, len);
}

static int listen_on_any_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (void *)&address, sizeof address) != 0 || listen(fd, 1024) != 0) {
        perror("listen");
        exit(1);
    }
    getsockname(fd, (void *)&address, &len);
    printf("http: http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    static h2o_globalconf_t config;
    static h2o_context_t context;
    if (argc != 2) {
        fprintf(stderr, "usage: floor FILE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    body = read_file(argv[1]);
    h2o_config_init(&config);
    h2o_hostconf_t *host =
        h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_create_handler(&host->fallback_path, sizeof(h2o_handler_t))->on_req = on_request;
    h2o_context_init(&context, h2o_evloop_create(), &config);
    accept_context = (h2o_accept_ctx_t){.ctx = &context, .hosts = config.hosts};
    h2o_socket_t *listener =
        h2o_evloop_socket_create(context.loop, listen_on_any_port(), H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(listener, on_accept);
    for (;;)
        h2o_evloop_run(context.loop, INT32_MAX);
}
