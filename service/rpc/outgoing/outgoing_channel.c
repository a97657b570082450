/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/outgoing/outgoing_channel.h"

#include "api/os/secrets/tls_files.h"

#include <grpc/compression.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

static sonde_err open_tls(const struct rpc_outgoing_options *options, struct tls_files **files,
                          struct sonde_diag *diag) {
    const struct tls_files_options wanted = {.ca_file = options->ca_file,
                                             .cert_file = options->cert_file,
                                             .key_file = options->key_file,
                                             .key_kind = SONDE_FILE_SECRET,
                                             .log = options->log};
    return options->is_tls ? tls_files_create(&wanted, files, diag) : SONDE_OK;
}

/* pems NULL: plaintext. */
static grpc_channel_credentials *make_credentials(const struct tls_pems *pems) {
    if (!pems)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {pems->key, pems->cert};
    return grpc_ssl_credentials_create(pems->ca, pems->key ? &pair : NULL, NULL, NULL);
}

/* The caller repeats calls itself, so the channel does not. */
static grpc_channel *make_channel(const struct outgoing_channel *channel,
                                  grpc_channel_credentials *credentials) {
    const struct {
        const char *key;
        int value;
    } settings[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)channel->max_answer},
        {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* api/rpc/message.h */
        {GRPC_ARG_KEEPALIVE_TIME_MS, (int)channel->keepalive_ms},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
        {GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
         channel->is_compressed ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_NONE},
        {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200},
        {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000}, /* also the time limit of one attempt */
        {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000},
        {GRPC_ARG_ENABLE_RETRIES, 0},
        {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
    };
    grpc_arg args[sizeof settings / sizeof settings[0]];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        args[i] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                             .key = (char *)settings[i].key,
                             .value.integer = settings[i].value};
    grpc_channel_args all = {sizeof args / sizeof args[0], args};
    return grpc_channel_create(channel->address, credentials, &all);
}

/* NULL when out of memory. */
static grpc_channel *make_core(const struct outgoing_channel *channel,
                               const struct tls_pems *pems) {
    grpc_channel_credentials *credentials = make_credentials(pems);
    grpc_channel *core = credentials ? make_channel(channel, credentials) : NULL;
    if (credentials)
        grpc_channel_credentials_release(credentials);
    return core;
}

void outgoing_channel_renew(struct outgoing_channel *channel) {
    const struct tls_pems *pems = channel->tls ? tls_files_take(channel->tls) : NULL;
    bool is_old = !channel->core || (pems && pems->version != channel->version);
    grpc_channel *core = is_old ? make_core(channel, pems) : NULL;
    if (core && channel->core)
        grpc_channel_destroy(channel->core);
    if (core)
        channel->core = core;
    if (core && pems)
        channel->version = pems->version;
    tls_pems_drop(pems);
}

sonde_err outgoing_channel_open(const struct rpc_outgoing_options *options,
                                struct outgoing_channel *channel, struct sonde_diag *diag) {
    sonde_err err = open_tls(options, &channel->tls, diag);
    if (err)
        return err;
    if (!(channel->address = strdup(options->address)))
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    channel->max_answer = options->max_answer ? options->max_answer : RPC_OUTGOING_MAX_ANSWER;
    channel->keepalive_ms = options->keepalive_ms ? options->keepalive_ms : INT32_MAX;
    channel->is_compressed = options->is_compressed;
    outgoing_channel_renew(channel);
    if (!channel->core)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "no channel to \"%.64s\" can be made: check the address and the files",
                          options->address);
    return SONDE_OK;
}

void outgoing_channel_close(struct outgoing_channel *channel) {
    if (channel->core)
        grpc_channel_destroy(channel->core);
    tls_files_destroy(channel->tls);
    free(channel->address);
    *channel = (struct outgoing_channel){0};
}
