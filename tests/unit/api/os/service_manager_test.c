/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/service_manager.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A manager's socket. `name` begins with "/" or, for an abstract one, with "@". */
static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
              ==, 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void check_received(int fd, const char *expected) {
    char message[128] = "";
    CHECK_INT(recv(fd, message, sizeof message - 1, MSG_DONTWAIT), >, 0);
    CHECK_INT(strncmp(message, expected, strlen(expected)), ==, 0);
}

static void check_all(const char *name) {
    int fd = listen_at(name);
    service_manager_ready();
    check_received(fd, "READY=1");
    service_manager_reloading();
    check_received(fd, "RELOADING=1\nMONOTONIC_USEC=");
    service_manager_stopping();
    check_received(fd, "STOPPING=1");
    close(fd);
}

TEST(each_message_is_one_datagram_to_the_manager) {
    char folder[64], path[96];
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(path, sizeof path, "%s/notify", folder);
    check_all(path);
    unlink(path);
    rmdir(folder);
}

TEST(the_managers_socket_may_be_abstract) {
    char name[64];
    snprintf(name, sizeof name, "@sonde-test-%d", getpid());
    check_all(name);
}

TEST(without_a_manager_nothing_is_sent_and_nothing_fails) {
    static const char *const odd[] = {"", "@", "/", "relative", "/nowhere/at/all"};
    char long_path[300];
    unsetenv("NOTIFY_SOCKET");
    service_manager_ready();
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        setenv("NOTIFY_SOCKET", odd[i], 1);
        service_manager_ready();
    }
    memset(long_path, '/', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    setenv("NOTIFY_SOCKET", long_path, 1);
    service_manager_ready();
}
