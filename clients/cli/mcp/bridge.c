/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/mcp/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The places of the descriptors that are always waited for; the calls follow. */
enum { INPUT, OUTPUT, SIGNALS, GATEWAY, SONDED, FIXED };

struct state {
    const struct bridge *bridge;
    struct exchange calls[BRIDGE_MAX_CALLS];
    size_t running;
    struct sonde_buf input; /* read and not sent yet */
    bool is_skipping;       /* the rest of a line that is too long */
    bool has_ended;         /* stdin */
    bool is_closed;         /* stdout, or a signal came while it was full */
};

/* stdout may be a full pipe that does not block. Returns false after a signal. */
static bool wait_for_reader(const struct state *state) {
    struct pollfd waiting[] = {{STDOUT_FILENO, POLLOUT, 0}, {state->bridge->signals, POLLIN, 0}};
    return poll(waiting, 2, -1) < 0 || !(waiting[1].revents & POLLIN);
}

static void print(struct state *state, const char *bytes, size_t len) {
    for (size_t done = 0; done < len && !state->is_closed;) {
        ssize_t result = write(STDOUT_FILENO, bytes + done, len - done);
        if (result > 0)
            done += (size_t)result;
        else if (errno == EAGAIN)
            state->is_closed = !wait_for_reader(state);
        else if (errno != EINTR)
            state->is_closed = true;
    }
}

/* The request has not been read, so its id is not known. */
static void refuse_line(struct state *state) {
    static const char refusal[] =
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":"
        "\"the message is larger than 1 MiB\"}}\n";
    print(state, refusal, sizeof refusal - 1);
}

static sonde_err send_line(struct state *state, struct sonde_slice line, struct sonde_diag *diag) {
    struct exchange *call = state->calls;
    while (line.len && strchr(" \t\r", line.data[line.len - 1]))
        line.len--;
    if (line.len == 0)
        return SONDE_OK;
    if (line.len > BRIDGE_MAX_LINE) {
        refuse_line(state);
        return SONDE_OK;
    }
    while (call->fd >= 0)
        call++;
    sonde_err err = exchange_start(call, &state->bridge->peer, line, diag);
    state->running += !err;
    return err;
}

/* Sends the lines that are complete, while calls are free. */
static sonde_err send_lines(struct state *state, struct sonde_diag *diag) {
    struct sonde_buf *input = &state->input;
    size_t used = 0;
    sonde_err err = SONDE_OK;
    while (!err && state->running < BRIDGE_MAX_CALLS && used < input->len) {
        const char *line = input->data + used, *end = memchr(line, '\n', input->len - used);
        size_t len = end ? (size_t)(end - line) : input->len - used;
        if (!end && !state->has_ended)
            break;
        if (!state->is_skipping)
            err = send_line(state, (struct sonde_slice){line, len}, diag);
        state->is_skipping = false;
        used += len + (end != NULL);
    }
    if (used)
        memmove(input->data, input->data + used, input->len - used);
    input->len -= used;
    return err;
}

static void read_input(struct state *state) {
    char *at = sonde_buf_extend(&state->input, 65536);
    ssize_t len = at ? read(STDIN_FILENO, at, 65536) : 0;
    if (at)
        state->input.len -= 65536 - (size_t)(len > 0 ? len : 0);
    if (len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN))
        state->has_ended = true;
}

/* Forgets the bytes of a line that is too long and has not ended. */
static void limit_input(struct state *state) {
    if (state->input.len <= BRIDGE_MAX_LINE || memchr(state->input.data, '\n', state->input.len))
        return;
    if (!state->is_skipping)
        refuse_line(state);
    state->is_skipping = true;
    state->input.len = 0;
}

static sonde_err step_call(struct state *state, struct exchange *call, struct sonde_diag *diag) {
    struct sonde_slice body;
    bool is_complete;
    sonde_err err = exchange_step(call, &is_complete, &body, diag);
    if (err || !is_complete)
        return err;
    print(state, body.data, body.len);
    if (body.len && body.data[body.len - 1] != '\n')
        print(state, "\n", 1);
    exchange_finish(call);
    state->running--;
    return SONDE_OK;
}

static void prepare(const struct state *state, struct pollfd waiting[FIXED + BRIDGE_MAX_CALLS]) {
    const struct bridge *bridge = state->bridge;
    bool reads = !state->has_ended && state->running < BRIDGE_MAX_CALLS;
    waiting[INPUT] = (struct pollfd){reads ? STDIN_FILENO : -1, POLLIN, 0};
    waiting[OUTPUT] = (struct pollfd){STDOUT_FILENO, 0, 0};
    waiting[SIGNALS] = (struct pollfd){bridge->signals, POLLIN, 0};
    waiting[GATEWAY] = (struct pollfd){bridge->gateway->output, POLLIN, 0};
    waiting[SONDED] = (struct pollfd){bridge->sonded ? bridge->sonded->output : -1, POLLIN, 0};
    for (size_t i = 0; i < BRIDGE_MAX_CALLS; i++)
        waiting[FIXED + i] =
            (struct pollfd){state->calls[i].fd, exchange_waits_for(&state->calls[i]), 0};
}

static sonde_err look_at_helpers(const struct bridge *bridge, struct sonde_diag *diag) {
    helper_read(bridge->gateway);
    if (bridge->sonded)
        helper_read(bridge->sonded);
    if (bridge->gateway->output >= 0)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_UNAVAILABLE, "the gateway of this command has ended: %.200s",
                      helper_last_line(bridge->gateway));
}

static sonde_err step(struct state *state, struct sonde_diag *diag) {
    struct pollfd waiting[FIXED + BRIDGE_MAX_CALLS];
    prepare(state, waiting);
    if (poll(waiting, FIXED + BRIDGE_MAX_CALLS, -1) < 0)
        return SONDE_OK;
    if (waiting[SIGNALS].revents & POLLIN)
        return sonde_fail(diag, SONDE_CANCELLED, "interrupted");
    state->is_closed |= (waiting[OUTPUT].revents & (POLLERR | POLLHUP)) != 0;
    sonde_err err = look_at_helpers(state->bridge, diag);
    for (size_t i = 0; i < BRIDGE_MAX_CALLS && !err; i++)
        if (state->calls[i].fd >= 0 && waiting[FIXED + i].revents)
            err = step_call(state, &state->calls[i], diag);
    if (!err && waiting[INPUT].revents)
        read_input(state);
    if (!err)
        err = send_lines(state, diag);
    if (!err)
        limit_input(state);
    return err;
}

sonde_err bridge_run(const struct bridge *bridge, struct sonde_diag *diag) {
    struct state state = {.bridge = bridge};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < BRIDGE_MAX_CALLS; i++)
        state.calls[i].fd = -1;
    while (!err && !state.is_closed &&
           (!state.has_ended || state.running > 0 || state.input.len > 0))
        err = step(&state, diag);
    for (size_t i = 0; i < BRIDGE_MAX_CALLS; i++)
        exchange_finish(&state.calls[i]);
    sonde_buf_finish(&state.input);
    return err;
}
