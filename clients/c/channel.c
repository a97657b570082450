/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/c/client_state.h"

#include "api/port.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_security.h>
#include <string.h>
#include <unistd.h>

#define MAX_PEM      (1u << 20)
#define WINDOW_BYTES (512 << 10)
#define FRAME_BYTES  (256 << 10)
/* For thousands of channels in one process. */
#define LEAN_WINDOW_BYTES (64 << 10)
#define LEAN_READ_BYTES   4096

static sonde_err read_file(const char *path, struct sonde_buf *out, struct sonde_diag *diag) {
    char bytes[4096];
    ssize_t got;
    out->limit = MAX_PEM;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sonde_fail_os(diag, errno, "%s cannot be opened", path);
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        sonde_buf_append(out, bytes, (size_t)got);
    int error = errno;
    close(fd);
    if (got < 0)
        return sonde_fail_os(diag, error, "%s cannot be read", path);
    if (out->failed || out->len == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s is empty or too large", path);
    return SONDE_OK;
}

static sonde_err make_credentials(const struct client_options *options,
                                  grpc_channel_credentials **credentials, struct sonde_diag *diag) {
    struct sonde_buf ca = {0}, cert = {0}, key = {0};
    if (!options->ca_file) {
        *credentials = grpc_insecure_credentials_create();
        return SONDE_OK;
    }
    sonde_err err = read_file(options->ca_file, &ca, diag);
    if (!err && options->cert_file)
        err = read_file(options->cert_file, &cert, diag);
    if (!err && options->key_file)
        err = read_file(options->key_file, &key, diag);
    if (!err && (cert.data == NULL) != (key.data == NULL))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "a client certificate needs its key, and a key its certificate");
    if (!err) {
        grpc_ssl_pem_key_cert_pair pair = {key.data, cert.data};
        *credentials = grpc_ssl_credentials_create(ca.data, key.data ? &pair : NULL, NULL, NULL);
    }
    if (key.data)
        explicit_bzero(key.data, key.len);
    sonde_buf_finish(&ca);
    sonde_buf_finish(&cert);
    sonde_buf_finish(&key);
    return err;
}

struct setting {
    const char *key;
    int value;
};

/* Reconnects soon after the service returns, ignores proxy settings of the environment, and shares
 * no connection with other channels, so that the gateway can keep long streams apart. */
static const struct setting common[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CLIENT_MAX_MESSAGE_BYTES},
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
    {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000}, /* also the time limit of one attempt */
    {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000},
    {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000},
    {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
    {GRPC_ARG_ENABLE_RETRIES, 0},
    {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
    {GRPC_ARG_ENABLE_CHANNELZ, 0},
    /* Keeps the flow-control window fixed: probing lets it grow to megabytes for each slow
     * reader. */
    {GRPC_ARG_HTTP2_BDP_PROBE, 0},
};

/* Larger frames save a few percent for large results. Larger windows, buffered writes and larger
 * reads were tried and made no measurable difference. */
static const struct setting large[] = {
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_BYTES},
};

static const struct setting lean[] = {
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, LEAN_WINDOW_BYTES},
    {GRPC_ARG_TCP_READ_CHUNK_SIZE, LEAN_READ_BYTES},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, LEAN_READ_BYTES},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MAX_ARGS     (COUNT(common) + COUNT(lean) + 1)

static size_t add(grpc_arg *args, size_t count, const struct setting *settings, size_t added) {
    for (size_t i = 0; i < added; i++)
        args[count + i] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                                     .key = (char *)settings[i].key,
                                     .value.integer = settings[i].value};
    return count + added;
}

static grpc_channel *make_channel(const struct client_options *options,
                                  grpc_channel_credentials *credentials) {
    grpc_arg args[MAX_ARGS];
    size_t count = add(args, 0, common, COUNT(common));
    count = options->is_lean ? add(args, count, lean, COUNT(lean))
                             : add(args, count, large, COUNT(large));
    if (options->server_name)
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                   .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                   .value.string = (char *)options->server_name};
    const grpc_channel_args all = {count, args};
    return grpc_channel_create(options->address, credentials, &all);
}

sonde_err client_channel_create(const struct client_options *options, grpc_channel **channel,
                                struct sonde_diag *diag) {
    grpc_channel_credentials *credentials = NULL;
    const char *address = options->address;
    const char *colon = strncmp(address, "unix:", 5) == 0 ? NULL : strrchr(address, ':');
    unsigned port;
    bool is_url = strncmp(address, "http://", 7) == 0 || strncmp(address, "https://", 8) == 0;
    if (is_url || (!colon && strncmp(address, "unix:", 5) != 0))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"%.64s\" is neither unix:PATH nor HOST:PORT", address);
    if (colon && !sonde_port_read(colon + 1, &port))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address \"%.64s\": " SONDE_PORT_RULE,
                          address);
    sonde_err err = make_credentials(options, &credentials, diag);
    if (err)
        return err;
    if (credentials)
        *channel = make_channel(options, credentials);
    if (credentials)
        grpc_channel_credentials_release(credentials);
    if (!*channel)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "no channel to \"%.64s\" can be made: check the address and the files",
                          address);
    return SONDE_OK;
}
