/* SPDX-License-Identifier: Apache-2.0
 *
 * The guests' socket. The sonded that serves it holds a lock on a file beside it. So a second
 * sonded gets a clear error, and the stale socket of a killed sonded can be removed without a race.
 * For abstract sockets ("@name") the kernel does both. */
#include "service/engine/core/engine_state.h"
#include "service/engine/guest/guest_link.h"

#include "api/os/exit_watchdog.h"
#include "api/os/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static sonde_err already_served(const char *path, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "another sonded serves %s; stop it, or choose another --socket", path);
}

static sonde_err fill_address(const char *path, struct sockaddr_un *address, socklen_t *len,
                              struct sonde_diag *diag) {
    size_t bytes = strlen(path);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (bytes == 0 || bytes >= sizeof address->sun_path)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the socket path must have 1 to %zu bytes, not %zu",
                          sizeof address->sun_path - 1, bytes);
    memcpy(address->sun_path, path, bytes);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
    if (path[0] == '@') {
        address->sun_path[0] = 0;
        *len -= 1;
    }
    return SONDE_OK;
}

/* Lets other users traverse the directory, but not list it. */
static sonde_err allow_traversal(const char *directory, struct sonde_diag *diag) {
    struct stat status;
    if (stat(directory, &status) != 0)
        return sonde_fail_os(diag, errno, "cannot stat %s", directory);
    if (status.st_mode & S_IXOTH)
        return SONDE_OK;
    if (chmod(directory, (status.st_mode & 07777) | S_IXGRP | S_IXOTH) != 0)
        return sonde_fail_os(diag, errno, "cannot make %s accessible for other users", directory);
    return SONDE_OK;
}

/* A new directory gets mode 0700; an existing one keeps its mode. */
static sonde_err make_directory(const char *path, bool for_everybody, struct sonde_diag *diag) {
    char parent[sizeof((struct sockaddr_un *)0)->sun_path];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return SONDE_OK;
    *slash = 0;
    sonde_err err = own_folder_check(path, "--socket", diag);
    if (err)
        return err;
    if (mkdir(parent, 0700) != 0 && errno != EEXIST)
        return sonde_fail_os(diag, errno, "cannot create the directory %s", parent);
    return for_everybody ? allow_traversal(parent, diag) : SONDE_OK;
}

static sonde_err take_lock(const char *path, int *lock_fd, struct sonde_diag *diag) {
    char name[sizeof((struct sockaddr_un *)0)->sun_path + sizeof ".lock"];
    snprintf(name, sizeof name, "%s.lock", path);
    *lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*lock_fd < 0)
        return sonde_fail_os(diag, errno, "cannot open %s", name);
    if (flock(*lock_fd, LOCK_EX | LOCK_NB) == 0) {
        exit_watchdog_lock(*lock_fd);
        return SONDE_OK;
    }
    int os_error = errno;
    close(*lock_fd);
    *lock_fd = -1;
    if (os_error == EWOULDBLOCK)
        return already_served(path, diag);
    return sonde_fail_os(diag, os_error, "cannot lock %s", name);
}

/* Removes only a socket: anything else at that path is somebody's file. */
static sonde_err sweep_stale(const char *path, struct sonde_diag *diag) {
    struct stat status;
    if (lstat(path, &status) != 0)
        return SONDE_OK;
    if (!S_ISSOCK(status.st_mode))
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s exists and is not a socket", path);
    if (unlink(path) != 0)
        return sonde_fail_os(diag, errno, "cannot remove the old socket %s", path);
    return SONDE_OK;
}

static bool is_bound(int fd, const char *path, bool for_everybody) {
    struct sockaddr_un address;
    socklen_t len;
    struct sonde_diag none;
    return fill_address(path, &address, &len, &none) == SONDE_OK &&
           bind(fd, (struct sockaddr *)&address, len) == 0 &&
           (!for_everybody || path[0] == '@' || chmod(path, 0666) == 0) && listen(fd, BACKLOG) == 0;
}

static sonde_err bind_and_listen(const char *path, bool for_everybody, int *listen_fd,
                                 struct sonde_diag *diag) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return sonde_fail_os(diag, errno, "cannot create a socket");
    if (is_bound(fd, path, for_everybody)) {
        *listen_fd = fd;
        return SONDE_OK;
    }
    int os_error = errno;
    close(fd);
    if (os_error == EADDRINUSE)
        return already_served(path, diag);
    return sonde_fail_os(diag, os_error, "cannot listen on %s", path);
}

sonde_err listen_open(const char *path, bool for_everybody, int *listen_fd, int *lock_fd,
                      struct sonde_diag *diag) {
    *listen_fd = *lock_fd = -1;
    struct sockaddr_un address;
    socklen_t len;
    sonde_err err = fill_address(path, &address, &len, diag);
    if (!err && path[0] != '@') {
        err = make_directory(path, for_everybody, diag);
        if (!err)
            err = take_lock(path, lock_fd, diag);
        if (!err)
            err = sweep_stale(path, diag);
    }
    if (!err)
        err = bind_and_listen(path, for_everybody, listen_fd, diag);
    if (err && *lock_fd >= 0) {
        exit_watchdog_forget(*lock_fd);
        close(*lock_fd);
        *lock_fd = -1;
    }
    return err;
}

void listen_close(const char *path, int listen_fd, int lock_fd) {
    if (listen_fd >= 0) {
        if (path && path[0] != '@')
            unlink(path);
        close(listen_fd);
    }
    /* Keep the file: otherwise two processes could lock two files of this name. */
    if (lock_fd >= 0) {
        exit_watchdog_forget(lock_fd);
        close(lock_fd);
    }
}
