/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/net/tcp_table.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES    (32u << 20)
#define BUFFER_BYTES 16384u

struct search {
    const struct sonde_tcp_end *own, *other;
    bool found;
    uid_t uid;
};

bool tcp_table_is_peer(uint8_t state, uint64_t inode) {
    return inode != 0 &&
           (state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 ||
            state == TCP_CLOSE_WAIT || state == TCP_CLOSING || state == TCP_LAST_ACK);
}

static void compare(struct search *search, const char *text, size_t len) {
    struct sonde_tcp_line line;
    if (!sonde_tcp_line_parse(text, len, &line) || !tcp_table_is_peer(line.state, line.inode) ||
        !sonde_tcp_end_equals(&line.own, search->own) ||
        !sonde_tcp_end_equals(&line.other, search->other))
        return;
    search->found = true;
    search->uid = line.uid;
}

/* Compares the whole lines and moves the rest to the front. Returns its length. */
static size_t compare_lines(struct search *search, char *buffer, size_t len) {
    char *start = buffer, *end;
    while (!search->found && (end = memchr(start, '\n', len)) != NULL) {
        compare(search, start, (size_t)(end - start));
        len -= (size_t)(end + 1 - start);
        start = end + 1;
    }
    memmove(buffer, start, len);
    return len;
}

static int read_lines(int fd, struct search *search) {
    char buffer[BUFFER_BYTES];
    size_t len = 0, total = 0;
    while (!search->found && len < sizeof buffer && total <= MAX_BYTES) {
        ssize_t got = read(fd, buffer + len, sizeof buffer - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : 0;
        total += (size_t)got;
        len = compare_lines(search, buffer, len + (size_t)got);
    }
    return search->found ? 0 : total > MAX_BYTES ? EFBIG : EPROTO;
}

static int search_file(const char *path, struct search *search) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int error = read_lines(fd, search);
    close(fd);
    return error;
}

/* A socket of the other family may have an IPv4 connection, too. A kernel without IPv6 has no such
 * file, and no such socket. */
int tcp_table_find(const struct sonde_tcp_end *own, const struct sonde_tcp_end *other, bool *found,
                   uid_t *uid) {
    struct search search = {.own = own, .other = other};
    int error = own->is_v6 ? 0 : search_file("/proc/self/net/tcp", &search);
    if (!error && !search.found) {
        error = search_file("/proc/self/net/tcp6", &search);
        if (error == ENOENT && !own->is_v6)
            error = 0;
    }
    *found = !error && search.found;
    if (*found)
        *uid = search.uid;
    return error;
}
