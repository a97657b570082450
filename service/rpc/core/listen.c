/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/listen.h"

#include "api/os/exit_watchdog.h"
#include "api/os/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <grpc/grpc_security.h>
#include <libgen.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static sonde_err make_folder(const char *path, struct sonde_diag *diag) {
    char copy[128];
    sonde_err err = own_folder_check(path, "--grpc", diag);
    if (err)
        return err;
    snprintf(copy, sizeof copy, "%s", path);
    const char *folder = dirname(copy);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "cannot create the directory %s", folder);
    return SONDE_OK;
}

/* The previous holder removes the lock file when it exits, and a lock on a removed file keeps
 * nobody out. So check that the locked file is still the one at the path. */
static int lock_file(const char *path) {
    for (int attempt = 0; attempt < 8; attempt++) {
        struct stat ours, there;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        if (fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
            ours.st_dev == there.st_dev) {
            exit_watchdog_lock(fd);
            return fd;
        }
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

static sonde_err lock_path(struct rpc_listener *listener, const char *path,
                           struct sonde_diag *diag) {
    struct stat info;
    sonde_err err = make_folder(path, diag);
    if (err)
        return err;
    snprintf(listener->lock_path, sizeof listener->lock_path, "%s.lock", path);
    listener->lock_fd = lock_file(listener->lock_path);
    if (listener->lock_fd < 0 && errno == EWOULDBLOCK)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "another process already serves unix:%s; stop it or choose another path",
                          path);
    if (listener->lock_fd < 0)
        return sonde_fail_os(diag, errno, "cannot lock %s", listener->lock_path);
    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s exists and is not a socket; choose another path", path);
    return SONDE_OK;
}

/* The group comes first, so that no other one gets in. */
static sonde_err open_to_group(const char *path, const char *group, struct sonde_diag *diag) {
    char names[4096];
    struct group entry, *found = NULL;
    if (getgrnam_r(group, &entry, names, sizeof names, &found) != 0 || !found)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--grpc-group: there is no group \"%.40s\"",
                          group);
    if (chown(path, (uid_t)-1, found->gr_gid) != 0 || chmod(path, 0660) != 0)
        return sonde_fail_os(diag, errno, "cannot give %s to the group %.40s", path, group);
    return SONDE_OK;
}

static sonde_err bind_unix(struct rpc_listener *listener, grpc_server *server, const char *path,
                           const char *group, struct sonde_diag *diag) {
    sonde_err err = lock_path(listener, path, diag);
    if (err)
        return err;
    snprintf(listener->address, sizeof listener->address, "unix:%s", path);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, listener->address, plain);
    grpc_server_credentials_release(plain);
    if (port == 0)
        return sonde_fail(diag, SONDE_IO,
                          "cannot listen on unix:%s; check that this user may write there", path);
    if (group)
        return open_to_group(path, group, diag);
    if (chmod(path, 0600) != 0)
        return sonde_fail_os(diag, errno, "cannot change the permissions of %s", path);
    return SONDE_OK;
}

/* Returns 0, or the errno of bind. Like gRPC, it does not mind connections that still end. */
static int try_address(const struct addrinfo *address) {
    int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int result = bind(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    close(fd);
    return result;
}

/* gRPC reports only that it failed, and logs a page about it. */
static sonde_err try_port(const char *text, const struct rpc_address *address,
                          struct sonde_diag *diag) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char digits[8];
    int reason = EADDRNOTAVAIL;
    snprintf(digits, sizeof digits, "%u", address->port);
    if (getaddrinfo(address->host, digits, &hints, &found) != 0)
        return SONDE_OK; /* gRPC may know better */
    for (struct addrinfo *at = found; at && reason; at = at->ai_next)
        reason = try_address(at);
    freeaddrinfo(found);
    return reason ? sonde_fail_os(diag, reason, "cannot listen on %s", text) : SONDE_OK;
}

static sonde_err bind_tcp(struct rpc_listener *listener, grpc_server *server, const char *text,
                          const struct rpc_address *address, struct sonde_diag *diag) {
    sonde_err err = try_port(text, address, diag);
    if (err)
        return err;
    grpc_server_credentials *credentials = rpc_credentials_create(&listener->tls);
    int port = credentials ? grpc_server_add_http2_port(server, text, credentials) : 0;
    if (credentials)
        grpc_server_credentials_release(credentials);
    if (port <= 0)
        return sonde_fail(diag, SONDE_IO, "cannot listen on %s; check that the port is free", text);
    const char *form = strchr(address->host, ':') ? "[%s]:%d" : "%s:%d";
    snprintf(listener->address, sizeof listener->address, form, address->host, port);
    return SONDE_OK;
}

static sonde_err judge(const char *text, const struct rpc_address *address,
                       const struct rpc_server_options *options, struct sonde_diag *diag) {
    bool is_guarded = options->token_file || (options->cert_file && options->client_ca_file);
    if (address->path || address->is_loopback || is_guarded || options->insecure)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_PERMISSION_DENIED,
                      "other machines can reach %s: give --token-file, or --tls-cert, --tls-key "
                      "and --tls-client-ca, or --insecure to allow unauthenticated access",
                      text);
}

static sonde_err bind_one(struct rpc_listener *listener, grpc_server *server, const char *text,
                          const struct rpc_server_options *options, struct sonde_diag *diag) {
    struct rpc_address address;
    sonde_err err = rpc_address_parse(text, &address, diag);
    if (!err)
        err = judge(text, &address, options, diag);
    if (err)
        return err;
    if (address.path)
        return bind_unix(listener, server, address.path, options->unix_group, diag);
    return bind_tcp(listener, server, text, &address, diag);
}

sonde_err rpc_listen(struct rpc_listeners *listeners, grpc_server *server,
                     const struct rpc_server_options *options, struct tls_files *tls,
                     struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (options->address_count == 0 || options->address_count > RPC_MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "give 1 to %d addresses",
                          RPC_MAX_ADDRESSES);
    for (size_t i = 0; i < options->address_count && !err; i++) {
        struct rpc_listener *listener = &listeners->items[listeners->count++];
        listener->lock_fd = -1;
        listener->tls.files = tls;
        listener->tls.asks_client = options->client_ca_file != NULL;
        err = bind_one(listener, server, options->addresses[i], options, diag);
    }
    return err;
}

/* Remove the socket while the lock is held, so that it cannot be another server's. */
void rpc_listeners_finish(struct rpc_listeners *listeners) {
    for (size_t i = 0; i < listeners->count; i++) {
        struct rpc_listener *listener = &listeners->items[i];
        if (listener->lock_fd < 0)
            continue;
        if (listener->address[0])
            unlink(listener->address + strlen("unix:"));
        unlink(listener->lock_path);
        exit_watchdog_forget(listener->lock_fd);
        close(listener->lock_fd);
    }
    listeners->count = 0;
}
