/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/service_manager.h"

#include "api/base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A manager that is away or slow is no reason to fail or to wait. */
static void notify(const char *message) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL,
                 (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

void service_manager_ready(void) {
    notify("READY=1");
}

void service_manager_reloading(void) {
    char message[64];
    snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             clock_ns(CLOCK_MONOTONIC) / 1000);
    notify(message);
}

void service_manager_stopping(void) {
    notify("STOPPING=1");
}

bool service_manager_has_terminal(void) {
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
