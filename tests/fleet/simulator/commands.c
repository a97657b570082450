/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE 4096

typedef void change(struct serve *serve, struct serve_host *host, long value);

static void do_kill(struct serve *serve, struct serve_host *host, long value) {
    serve_restart(serve, host);
}

static void do_step(struct serve *serve, struct serve_host *host, long value) {
    host->host.clock_step_s += value;
}

static void do_slow(struct serve *serve, struct serve_host *host, long value) {
    host->slow_ms = (uint32_t)value;
}

static void do_stall(struct serve *serve, struct serve_host *host, long value) {
    host->is_stalled = value != 0;
}

static void do_down(struct serve *serve, struct serve_host *host, long value) {
    host->is_down = value != 0;
    if (host->is_down)
        serve_disconnect(host, SONDE_UNAVAILABLE, "the host is down");
}

static void do_disconnect(struct serve *serve, struct serve_host *host, long value) {
    serve_disconnect(host, SONDE_UNAVAILABLE, "the connection is cut");
}

static void do_repeat(struct serve *serve, struct serve_host *host, long value) {
    host_repeat(&host->host);
}

static void do_garbage(struct serve *serve, struct serve_host *host, long value) {
    host->sends_garbage = true;
}

static void do_keep(struct serve *serve, struct serve_host *host, long value) {
    host->host.keep_bytes = (uint64_t)value;
}

static void do_lose(struct serve *serve, struct serve_host *host, long value) {
    host_lie(&host->host, -1);
}

static void do_double(struct serve *serve, struct serve_host *host, long value) {
    host_lie(&host->host, 1);
}

static const struct {
    const char *name;
    change *run;
} changes[] = {
    {"kill", do_kill},     {"step", do_step},     {"slow", do_slow},
    {"stall", do_stall},   {"down", do_down},     {"disconnect", do_disconnect},
    {"repeat", do_repeat}, {"keep", do_keep},     {"garbage", do_garbage},
    {"lose", do_lose},     {"double", do_double},
};

static bool read_range(const struct serve *serve, const char *text, size_t *first, size_t *last) {
    *first = 0;
    *last = serve->count - 1;
    if (strcmp(text, "all") == 0)
        return true;
    int found = sscanf(text, "%zu-%zu", first, last);
    if (found == 1)
        *last = *first;
    return found >= 1 && *first <= *last && *last < serve->count;
}

static bool run_change(struct serve *serve, const char *name, const char *hosts, long value) {
    size_t first, last;
    if (!read_range(serve, hosts, &first, &last))
        return false;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (strcmp(changes[i].name, name) != 0)
            continue;
        for (size_t k = first; k <= last; k++) {
            changes[i].run(serve, &serve->hosts[k], value);
            serve_pump_host(serve, &serve->hosts[k]);
        }
        return true;
    }
    return false;
}

static void print_status(const struct serve *serve) {
    size_t connected = 0, kept = 0, unsent = 0, kept_bytes = 0;
    for (size_t i = 0; i < serve->count; i++) {
        const struct host *host = &serve->hosts[i].host;
        connected += host->has_call;
        kept_bytes += host->kept_bytes;
        for (const struct host_window *window = host->first; window; window = window->next) {
            kept++;
            unsent += !window->was_sent;
        }
    }
    const struct truth *truth = &serve->fleet.truth;
    printf("ok {\"now_unix_s\": %" PRId64 ", \"connected\": %zu, \"kept\": %zu, \"unsent\": %zu, "
           "\"kept_bytes\": %zu, \"calls\": %" PRIu64 ", \"displaced\": %" PRIu64
           ", \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"acknowledging\": %" PRIu64
           ", \"recorded\": %" PRIu64 ", \"merged\": %" PRIu64 ", \"lost_by_memory\": %" PRIu64
           ", \"lost_by_restart\": %" PRIu64 ", \"acknowledged\": %" PRIu64 "}\n",
           serve->now_unix_s, connected, kept, unsent, kept_bytes, serve->calls, serve->displaced,
           serve->messages, serve->bytes, serve->acknowledging, truth->recorded, truth->merged,
           truth->lost_by_memory, truth->lost_by_restart, truth->acknowledged);
}

static void run_line(struct serve *serve, const char *line) {
    char name[32] = "", argument[2048] = "";
    long value = 0;
    sscanf(line, "%31s %2047s %ld", name, argument, &value);
    bool is_ok = true;
    if (strcmp(name, "status") == 0) {
        print_status(serve);
        fflush(stdout);
        return;
    }
    if (strcmp(name, "advance") == 0)
        serve_advance(serve, serve->now_unix_s + atol(argument));
    else if (strcmp(name, "truth") == 0)
        is_ok = truth_write(&serve->fleet.truth, argument);
    else
        is_ok = run_change(serve, name, argument, value);
    if (is_ok)
        puts("ok");
    else
        printf("error: %s\n", line);
    fflush(stdout);
}

bool commands_read(struct serve *serve) {
    static char text[MAX_LINE];
    static size_t len = 0;
    ssize_t got = read(0, text + len, sizeof text - 1 - len);
    if (got <= 0)
        return false;
    len += (size_t)got;
    text[len] = 0;
    char *line = text, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        run_line(serve, line);
    }
    len -= (size_t)(line - text);
    memmove(text, line, len);
    return len < sizeof text - 1;
}
