/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/targets_all.h"

#include "api/bytes.h"
#include "api/text/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CONTAINER_LEN 12 /* as docker ps shows it */
#define MAX_USER      16
#define FULL_WIDTH    90 /* below this there is no container, below the next one no threads */
#define USUAL_WIDTH   64

struct columns {
    size_t width; /* of a line; 0 = unlimited */
    int user;     /* longest name of a user */
    bool has_threads, has_container;
};

static size_t terminal_width(void) {
    struct winsize size;
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return is_known && size.ws_col > 20 ? size.ws_col : 0;
}

/* Writes a name from outside without control characters, which could change the terminal's state,
 * and without an incomplete character at its end. */
static void put_text(struct sonde_buf *line, const char *text, size_t most) {
    for (size_t i = 0, len = strnlen(text, most); i < len;)
        i += sonde_utf8_put_next(line, text + i, len - i, '?');
}

static void user_of(const Sonde__V1__Target *target, char user[MAX_USER + 1]) {
    if (target->user[0])
        snprintf(user, MAX_USER + 1, "%s", target->user);
    else
        snprintf(user, MAX_USER + 1, "%u", target->uid);
}

static struct columns measure(const Sonde__V1__ListTargetsResponse *response) {
    struct columns columns = {.width = terminal_width(), .user = (int)strlen("USER")};
    columns.has_threads = columns.width == 0 || columns.width >= USUAL_WIDTH;
    for (size_t i = 0; i < response->n_targets; i++) {
        char user[MAX_USER + 1];
        user_of(response->targets[i], user);
        columns.user = (int)strlen(user) > columns.user ? (int)strlen(user) : columns.user;
        columns.has_container |= response->targets[i]->container[0] != 0;
    }
    columns.has_container &= columns.width == 0 || columns.width >= FULL_WIDTH;
    return columns;
}

/* "3.2 s", "14 min", "31 h" */
static void time_text(char text[24], uint64_t ns) {
    double seconds = (double)ns / 1e9;
    if (seconds < 100)
        snprintf(text, 24, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(text, 24, "%.0f min", seconds / 60);
    else
        snprintf(text, 24, "%.0f h", seconds / 3600);
}

/* Everything but the name, which comes last. */
static void put_columns(struct sonde_buf *line, const struct columns *columns, const char *pid,
                        const char *user, const char *cpu, const char *threads,
                        const char *container, const char *guest) {
    sonde_buf_printf(line, "%8s  ", pid);
    put_text(line, user, MAX_USER);
    sonde_buf_printf(line, "%*s %8s  ", columns->user - (int)strlen(user), "", cpu);
    if (columns->has_threads)
        sonde_buf_printf(line, "%7s  ", threads);
    if (columns->has_container) {
        size_t len = strnlen(container, CONTAINER_LEN);
        put_text(line, container, CONTAINER_LEN);
        sonde_buf_printf(line, "%*s  ", (int)(CONTAINER_LEN - len), "");
    }
    sonde_buf_printf(line, "%-5s  ", guest);
}

static void put_process(struct sonde_buf *line, const struct columns *columns,
                        const Sonde__V1__Target *target) {
    char pid[16], user[MAX_USER + 1], cpu[24], threads[16];
    snprintf(pid, sizeof pid, "%d", target->pid);
    snprintf(threads, sizeof threads, "%u", target->threads);
    user_of(target, user);
    time_text(cpu, target->cpu_ns);
    put_columns(line, columns, pid, user, cpu, threads, target->container,
                target->unattached ? "-" : "yes");
    put_text(line, target->name, 80);
    if (target->executable[0] && strcmp(target->executable, target->name) != 0) {
        sonde_buf_puts(line, " (");
        put_text(line, target->executable, 80);
        sonde_buf_puts(line, ")");
    }
    if (target->unavailable[0]) {
        sonde_buf_puts(line, ": ");
        put_text(line, target->unavailable, 400);
    }
}

/* Not in the middle of a character. */
static size_t cut(const struct sonde_buf *line, size_t width) {
    size_t len = line->len;
    if (width == 0 || len <= width)
        return len;
    for (len = width; len > 0 && ((unsigned char)line->data[len] & 0xc0) == 0x80; len--)
        continue;
    return len;
}

static void end_line(struct sonde_buf *line, const struct columns *columns) {
    if (!line->failed)
        printf("%.*s\n", (int)cut(line, columns->width), line->data);
    sonde_buf_finish(line);
}

void targets_print_all(const Sonde__V1__ListTargetsResponse *response) {
    struct columns columns = measure(response);
    struct sonde_buf line = {0};
    put_columns(&line, &columns, "PID", "USER", "CPU TIME", "THREADS", "CONTAINER", "GUEST");
    sonde_buf_puts(&line, "NAME");
    end_line(&line, &columns);
    for (size_t i = 0; i < response->n_targets; i++) {
        line = (struct sonde_buf){0};
        put_process(&line, &columns, response->targets[i]);
        end_line(&line, &columns);
    }
}
