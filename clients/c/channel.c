/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's connections. There is one, and after a change of the TLS files an older one for each
 * version that still has calls. */
#include "clients/c/client_state.h"

#include "api/os/secrets/tls_files.h"
#include "api/text/port.h"

#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES (512 << 10)
#define FRAME_BYTES  (256 << 10)
/* For thousands of channels in one process. */
#define LEAN_WINDOW_BYTES (64 << 10)
#define LEAN_READ_BYTES   4096

static grpc_channel_credentials *make_credentials(const struct tls_pems *pems) {
    if (!pems)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {pems->key, pems->cert};
    return grpc_ssl_credentials_create(pems->ca, pems->key ? &pair : NULL, NULL, NULL);
}

struct setting {
    const char *key;
    int value;
};

/* Reconnects soon after the service returns, ignores proxy settings of the environment, and shares
 * no connection with other channels, so that the gateway can keep long streams apart. */
static const struct setting common[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CLIENT_MAX_MESSAGE_BYTES},
    {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* api/rpc/message.h */
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
    {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000}, /* also the time limit of one attempt */
    {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000},
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
    {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000},
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_BYTES},
};

/* A process that is late must not believe that all of its thousands of connections are broken. */
static const struct setting lean[] = {
    {GRPC_ARG_KEEPALIVE_TIME_MS, 60000},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 30000},
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

static grpc_channel *make_core(const struct client *client, grpc_channel_credentials *credentials) {
    grpc_arg args[MAX_ARGS];
    size_t count = add(args, 0, common, COUNT(common));
    count = client->is_lean ? add(args, count, lean, COUNT(lean))
                            : add(args, count, large, COUNT(large));
    if (client->server_name)
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                   .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                   .value.string = client->server_name};
    const grpc_channel_args all = {count, args};
    return grpc_channel_create(client->address, credentials, &all);
}

/* pems NULL: plaintext. NULL when out of memory. */
static struct client_channel *make_channel(const struct client *client,
                                           const struct tls_pems *pems) {
    struct client_channel *channel = calloc(1, sizeof *channel);
    grpc_channel_credentials *credentials = channel ? make_credentials(pems) : NULL;
    if (!credentials) {
        free(channel);
        return NULL;
    }
    channel->core = make_core(client, credentials);
    channel->version = pems ? pems->version : 0;
    channel->references = 1;
    grpc_channel_credentials_release(credentials);
    return channel;
}

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

static sonde_err open_tls(struct client *client, const struct client_options *options,
                          struct sonde_diag *diag) {
    const struct tls_files_options own = {.ca_file = options->ca_file,
                                          .cert_file = options->cert_file,
                                          .key_file = options->key_file};
    client->tls = options->tls;
    client->owns_tls = !options->tls && options->ca_file;
    return client->owns_tls ? tls_files_create(&own, &client->tls, diag) : SONDE_OK;
}

static const struct tls_pems *newest_pems(const struct client *client) {
    return client->tls ? tls_files_take(client->tls) : NULL;
}

sonde_err client_channel_open(struct client *client, const struct client_options *options,
                              struct sonde_diag *diag) {
    sonde_err err = check_address(options->address, diag);
    if (!err)
        err = open_tls(client, options, diag);
    if (err)
        return err;
    client->is_lean = options->is_lean;
    client->address = strdup(options->address);
    client->server_name = options->server_name ? strdup(options->server_name) : NULL;
    if (!client->address || !client->server_name != !options->server_name)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the client");
    const struct tls_pems *pems = newest_pems(client);
    client->channel = make_channel(client, pems);
    tls_pems_drop(pems);
    return client->channel ? SONDE_OK
                           : sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                        "no channel to \"%.64s\" can be made: check the address "
                                        "and the files",
                                        options->address);
}

void client_channel_close(struct client *client) {
    if (client->channel)
        client_channel_drop(client, client->channel);
    if (client->owns_tls)
        tls_files_destroy(client->tls);
    free(client->address);
    free(client->server_name);
}

/* Under the client's lock. Returns the channel before, if there is a new one. */
static struct client_channel *renew(struct client *client, const struct tls_pems *pems) {
    struct client_channel *before = client->channel;
    struct client_channel *channel =
        pems && pems->version > before->version ? make_channel(client, pems) : NULL;
    if (!channel)
        return NULL;
    client->channel = channel;
    return before;
}

struct client_channel *client_channel_take(struct client *client) {
    const struct tls_pems *pems = newest_pems(client);
    pthread_mutex_lock(&client->lock);
    struct client_channel *before = renew(client, pems);
    struct client_channel *channel = client->channel;
    channel->references++;
    pthread_mutex_unlock(&client->lock);
    if (before)
        client_channel_drop(client, before);
    tls_pems_drop(pems);
    return channel;
}

void client_channel_drop(struct client *client, struct client_channel *channel) {
    pthread_mutex_lock(&client->lock);
    bool is_last = --channel->references == 0;
    pthread_mutex_unlock(&client->lock);
    if (!is_last)
        return;
    grpc_channel_destroy(channel->core);
    free(channel);
}
