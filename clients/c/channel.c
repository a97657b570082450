/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the address and chooses the settings of the client's connections. */
#include "clients/c/client_state.h"

#include "api/text/port.h"

#include <string.h>

#define WINDOW_BYTES (512 << 10)
#define FRAME_BYTES  (256 << 10)
/* For thousands of channels in one process. */
#define LEAN_WINDOW_BYTES (64 << 10)
#define LEAN_READ_BYTES   4096

/* Both lists: the client reconnects soon after the service returns and ignores proxy settings of
 * the environment. The flow-control window is fixed: probing lets it grow to megabytes for each
 * slow reader. */

/* Larger frames save a few percent for large results. Larger windows, buffered writes and larger
 * reads were tried and made no measurable difference. */
static const struct rpc_channel_setting large[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CLIENT_MAX_MESSAGE_BYTES},
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
    {GRPC_ARG_HTTP2_BDP_PROBE, 0},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000},
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_BYTES},
};

/* A process that is late must not believe that all of its thousands of connections are broken. */
static const struct rpc_channel_setting lean[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CLIENT_MAX_MESSAGE_BYTES},
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
    {GRPC_ARG_HTTP2_BDP_PROBE, 0},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 60000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 30000},
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, LEAN_WINDOW_BYTES},
    {GRPC_ARG_TCP_READ_CHUNK_SIZE, LEAN_READ_BYTES},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, LEAN_READ_BYTES},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static sonde_err check_address(const char *address, struct sonde_diag *diag) {
    const char *colon = strncmp(address, "unix:", 5) == 0 ? NULL : strrchr(address, ':');
    unsigned port;
    bool is_url = strncmp(address, "http://", 7) == 0 || strncmp(address, "https://", 8) == 0;
    if (is_url || (!colon && strncmp(address, "unix:", 5) != 0))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"%.64s\" is neither unix:PATH nor HOST:PORT", address);
    if (colon && !sonde_port_read(colon + 1, &port))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address \"%.64s\": " SONDE_PORT_RULE,
                          address);
    return SONDE_OK;
}

sonde_err client_channels_open(struct client *client, const struct client_options *options,
                               struct sonde_diag *diag) {
    const struct tls_files_options files = {.ca_file = options->ca_file,
                                            .cert_file = options->cert_file,
                                            .key_file = options->key_file};
    const struct rpc_channels_options channels = {
        .address = options->address,
        .server_name = options->server_name,
        .own_tls = options->ca_file ? &files : NULL,
        .tls = options->tls,
        .settings = options->is_lean ? lean : large,
        .setting_count = options->is_lean ? COUNT(lean) : COUNT(large),
    };
    sonde_err err = check_address(options->address, diag);
    return err ? err : rpc_channels_create(&channels, &client->channels, diag);
}
