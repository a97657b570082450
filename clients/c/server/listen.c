/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses and TLS. */
#include "api/os/secrets/tls_files.h"
#include "api/text/port.h"
#include "clients/c/server/server_state.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_HEAD "unix:"

/* ---- TLS ---- */

/* Called by gRPC for the listener and for each handshake, one at a time. gRPC aborts without a
 * client CA, even if it asks for no client certificate: then it gets a certificate that it does not
 * use. */
static grpc_ssl_certificate_config_reload_status
fetch(void *context, grpc_ssl_server_certificate_config **config) {
    struct tls_user *user = context;
    const struct tls_pems *pems = tls_files_take(user->files);
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    if (pems->version != user->version) {
        grpc_ssl_pem_key_cert_pair pair = {pems->key, pems->cert};
        *config =
            grpc_ssl_server_certificate_config_create(pems->ca ? pems->ca : pems->cert, &pair, 1);
        user->version = pems->version;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    tls_pems_drop(pems);
    return status;
}

static grpc_server_credentials *make_credentials(struct tls_user *user, bool asks_client) {
    if (!user->files)
        return grpc_insecure_server_credentials_create();
    grpc_ssl_server_credentials_options *options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            asks_client ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            fetch, user);
    return options ? grpc_ssl_server_credentials_create_with_options(options) : NULL;
}

/* ---- Addresses ---- */

static bool somebody_listens(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answers = fd >= 0 && connect(fd, (const void *)address, sizeof *address) == 0;
    if (fd >= 0)
        close(fd);
    return answers;
}

/* A socket that a killed process left is replaced. */
static sonde_err check_path(const char *path, struct sonde_diag *diag) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat info;
    char folder[sizeof address.sun_path];
    if (path[0] == 0 || strlen(path) >= sizeof address.sun_path)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "unix:%.64s: the path of a unix socket has 1 to %zu bytes", path,
                          sizeof address.sun_path - 1);
    snprintf(folder, sizeof folder, "%s", path);
    const char *parent = dirname(folder);
    if (mkdir(parent, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "cannot create the directory %s", parent);
    memcpy(address.sun_path, path, strlen(path));
    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s exists and is not a socket; choose another path", path);
    if (somebody_listens(&address))
        return sonde_fail(diag, SONDE_IO,
                          "another process already serves unix:%s; stop it or choose another path",
                          path);
    return SONDE_OK;
}

static sonde_err bind_unix(struct server *server, const char *text, struct sonde_diag *diag) {
    const char *path = text + strlen(UNIX_HEAD);
    sonde_err err = check_path(path, diag);
    if (err)
        return err;
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server->core, text, plain);
    grpc_server_credentials_release(plain);
    if (port == 0)
        return sonde_fail(diag, SONDE_IO,
                          "cannot listen on %s; check that this user may write there", text);
    server->owns_socket[server->address_count] = true;
    snprintf(server->addresses[server->address_count], sizeof server->addresses[0], "%s", text);
    server->address_count++;
    return chmod(path, 0600) == 0
               ? SONDE_OK
               : sonde_fail_os(diag, errno, "cannot change the permissions of %s", path);
}

static sonde_err bind_tcp(struct server *server, const char *text,
                          const struct server_options *options, struct sonde_diag *diag) {
    const char *colon = strrchr(text, ':');
    unsigned wanted;
    if (!colon || colon == text || !sonde_port_read(colon + 1, &wanted))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"%.64s\" is neither unix:PATH nor HOST:PORT; " SONDE_PORT_RULE,
                          text);
    if (!options->tokens && !options->asks_client && !options->is_open)
        return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                          "others can reach %.64s: give --token-file, or --tls-cert, --tls-key and "
                          "--tls-client-ca, or listen on unix:PATH",
                          text);
    struct tls_user *user = &server->tls[server->address_count];
    user->files = options->tls;
    grpc_server_credentials *credentials = make_credentials(user, options->asks_client);
    int port = credentials ? grpc_server_add_http2_port(server->core, text, credentials) : 0;
    if (credentials)
        grpc_server_credentials_release(credentials);
    if (port <= 0)
        return sonde_fail(diag, SONDE_IO, "cannot listen on %.64s; check that the port is free",
                          text);
    snprintf(server->addresses[server->address_count], sizeof server->addresses[0], "%.*s:%d",
             (int)(colon - text), text, port);
    server->address_count++;
    return SONDE_OK;
}

sonde_err server_listen(struct server *server, const struct server_options *options,
                        struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (options->address_count == 0 || options->address_count > SERVER_MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "give 1 to %d addresses",
                          SERVER_MAX_ADDRESSES);
    for (size_t i = 0; i < options->address_count && !err; i++) {
        const char *text = options->addresses[i];
        err = strncmp(text, UNIX_HEAD, strlen(UNIX_HEAD)) == 0
                  ? bind_unix(server, text, diag)
                  : bind_tcp(server, text, options, diag);
    }
    return err;
}

void server_remove_sockets(struct server *server) {
    for (size_t i = 0; i < server->address_count; i++)
        if (server->owns_socket[i])
            unlink(server->addresses[i] + strlen(UNIX_HEAD));
}
