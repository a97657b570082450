/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/clickhouse/server.h"

#include "tests/unit/temporary.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "/usr/sbin/clickhouse-server"

bool server_is_installed(void) {
    return access(PROGRAM, X_OK) == 0;
}

/* Benches have no test that could fail. */
static void demand(bool is_true, const struct server *server, const char *what) {
    if (is_true)
        return;
    fprintf(stderr, "%s: see %s\n", what, server->folder);
    exit(1);
}

static int bind_port(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int server_free_port(void) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int fd = bind_port(0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    close(fd);
    return ntohs(address.sin_port);
}

static void write_file(const struct server *server, const char *name, const char *format, ...) {
    char path[300];
    va_list arguments;
    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    FILE *file = fopen(path, "w");
    demand(file, server, "a file cannot be written");
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

void server_configure(struct server *server, const char *extra) {
    char path[300];
    temporary_template(server->folder, sizeof server->folder);
    demand(mkdtemp(server->folder), server, "a folder cannot be created");
    snprintf(path, sizeof path, "%s/tmp", server->folder);
    mkdir(path, 0700);
    server->http_port = server->http_port ? server->http_port : server_free_port();
    server->tcp_port = server->tcp_port ? server->tcp_port : server_free_port();
    server->interserver_port = server_free_port();
    write_file(server, "config.xml",
               "<yandex><logger><level>warning</level><log>%s/log</log><errorlog>%s/errors"
               "</errorlog></logger><listen_host>127.0.0.1</listen_host>"
               "<http_port>%d</http_port><tcp_port>%d</tcp_port>"
               "<interserver_http_port>%d</interserver_http_port>"
               "<interserver_http_host>127.0.0.1</interserver_http_host>"
               "<path>%s/data/</path><tmp_path>%s/tmp/</tmp_path>"
               "<users_config>users.xml</users_config><default_profile>default</default_profile>"
               "<default_database>default</default_database><timezone>Asia/Kolkata</timezone>"
               "<mark_cache_size>67108864</mark_cache_size>"
               "<compression><case><min_part_size>0</min_part_size>"
               "<min_part_size_ratio>0</min_part_size_ratio><method>zstd</method></case>"
               "</compression>%s</yandex>",
               server->folder, server->folder, server->http_port, server->tcp_port,
               server->interserver_port, server->folder, server->folder, extra);
    write_file(server, "users.xml",
               "<yandex><profiles><default><max_threads>2</max_threads></default>"
               "<reader><readonly>1</readonly></reader></profiles><users>"
               "<default><password></password><networks><ip>127.0.0.1</ip></networks>"
               "<profile>default</profile><quota>default</quota></default>"
               "<keeper><password>se'cret@1</password><networks><ip>127.0.0.1</ip></networks>"
               "<profile>default</profile><quota>default</quota></keeper>"
               "<reader><password></password><networks><ip>127.0.0.1</ip></networks>"
               "<profile>reader</profile><quota>default</quota></reader>"
               "</users><quotas><default></default></quotas></yandex>");
}

static void run(const struct server *server) {
    char config[300], out[300];
    snprintf(config, sizeof config, "--config-file=%s/config.xml", server->folder);
    snprintf(out, sizeof out, "%s/out", server->folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    if (chdir(server->folder) == 0)
        execl(PROGRAM, PROGRAM, config, (char *)NULL);
    _exit(127);
}

static bool answers(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is_open = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is_open;
}

void server_start(struct server *server) {
    struct timespec pause = {0, 10000000};
    server->pid = fork();
    if (server->pid == 0)
        run(server);
    for (int i = 0; i < 6000 && !answers(server->http_port); i++) {
        int status;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            demand(false, server, "clickhouse-server ended");
        nanosleep(&pause, NULL);
    }
    demand(answers(server->http_port), server, "clickhouse-server does not answer");
}

void server_kill(struct server *server) {
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
}

double server_cpu_s(const struct server *server) {
    char path[64];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                       &system) != 2)
        user = system = 0;
    if (file)
        fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
