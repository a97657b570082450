/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc/client/channel.h"

#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rpc_channels {
    char *address, *server_name;
    struct tls_files *tls; /* NULL = plaintext */
    bool owns_tls;
    struct rpc_channel_setting settings[RPC_CHANNEL_MAX_SETTINGS];
    size_t setting_count;
    pthread_mutex_t lock; /* guards what follows, and every channel's references */
    struct rpc_channel *newest;
};

/* The caller repeats calls itself, so the channel does not. */
static const struct rpc_channel_setting common[] = {
    {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* api/rpc/message.h */
    {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000},      /* also the time limit of one attempt */
    {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000},
    {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
    {GRPC_ARG_ENABLE_RETRIES, 0},
    {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
    {GRPC_ARG_ENABLE_CHANNELZ, 0},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MAX_ARGS     (COUNT(common) + RPC_CHANNEL_MAX_SETTINGS + 1)

static size_t add(grpc_arg *args, size_t count, const struct rpc_channel_setting *settings,
                  size_t added) {
    for (size_t i = 0; i < added; i++)
        args[count + i] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                                     .key = (char *)settings[i].key,
                                     .value.integer = settings[i].value};
    return count + added;
}

/* pems NULL: plaintext. */
static grpc_channel_credentials *make_credentials(const struct tls_pems *pems) {
    if (!pems)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {pems->key, pems->cert};
    return grpc_ssl_credentials_create(pems->ca, pems->key ? &pair : NULL, NULL, NULL);
}

static grpc_channel *make_core(const struct rpc_channels *channels,
                               grpc_channel_credentials *credentials) {
    grpc_arg args[MAX_ARGS];
    size_t count = add(args, 0, common, COUNT(common));
    count = add(args, count, channels->settings, channels->setting_count);
    if (channels->server_name)
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                   .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                   .value.string = channels->server_name};
    const grpc_channel_args all = {count, args};
    return grpc_channel_create(channels->address, credentials, &all);
}

/* NULL when out of memory, or when gRPC cannot use the files. */
static struct rpc_channel *make_channel(const struct rpc_channels *channels,
                                        const struct tls_pems *pems) {
    struct rpc_channel *channel = calloc(1, sizeof *channel);
    grpc_channel_credentials *credentials = channel ? make_credentials(pems) : NULL;
    if (!credentials) {
        free(channel);
        return NULL;
    }
    channel->core = make_core(channels, credentials);
    channel->version = pems ? pems->version : 0;
    channel->references = 1;
    grpc_channel_credentials_release(credentials);
    return channel;
}

static const struct tls_pems *newest_pems(const struct rpc_channels *channels) {
    return channels->tls ? tls_files_take(channels->tls) : NULL;
}

static sonde_err open_tls(struct rpc_channels *channels, const struct rpc_channels_options *options,
                          struct sonde_diag *diag) {
    channels->tls = options->tls;
    channels->owns_tls = !options->tls && options->own_tls;
    return channels->owns_tls ? tls_files_create(options->own_tls, &channels->tls, diag) : SONDE_OK;
}

static sonde_err open_first(struct rpc_channels *channels,
                            const struct rpc_channels_options *options, struct sonde_diag *diag) {
    sonde_err err = open_tls(channels, options, diag);
    if (err)
        return err;
    channels->address = strdup(options->address);
    channels->server_name = options->server_name ? strdup(options->server_name) : NULL;
    if (!channels->address || !channels->server_name != !options->server_name)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    const struct tls_pems *pems = newest_pems(channels);
    channels->newest = make_channel(channels, pems);
    tls_pems_drop(pems);
    if (!channels->newest)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "no channel to \"%.64s\" can be made: check the address and the files",
                          options->address);
    return SONDE_OK;
}

sonde_err rpc_channels_create(const struct rpc_channels_options *options,
                              struct rpc_channels **created, struct sonde_diag *diag) {
    struct rpc_channels *channels = calloc(1, sizeof *channels);
    *created = NULL;
    if (!channels)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (options->setting_count > RPC_CHANNEL_MAX_SETTINGS)
        abort(); /* a bug of the caller, whose list is static */
    pthread_mutex_init(&channels->lock, NULL);
    for (size_t i = 0; i < options->setting_count; i++)
        channels->settings[i] = options->settings[i];
    channels->setting_count = options->setting_count;
    sonde_err err = open_first(channels, options, diag);
    if (err)
        rpc_channels_destroy(channels);
    else
        *created = channels;
    return err;
}

void rpc_channels_destroy(struct rpc_channels *channels) {
    if (!channels)
        return;
    if (channels->newest)
        rpc_channels_drop(channels, channels->newest);
    if (channels->owns_tls)
        tls_files_destroy(channels->tls);
    free(channels->address);
    free(channels->server_name);
    pthread_mutex_destroy(&channels->lock);
    free(channels);
}

/* Under the lock. Returns the channel before, if there is a new one. */
static struct rpc_channel *renew(struct rpc_channels *channels, const struct tls_pems *pems) {
    struct rpc_channel *before = channels->newest;
    struct rpc_channel *channel =
        pems && pems->version > before->version ? make_channel(channels, pems) : NULL;
    if (!channel)
        return NULL;
    channels->newest = channel;
    return before;
}

struct rpc_channel *rpc_channels_take(struct rpc_channels *channels) {
    const struct tls_pems *pems = newest_pems(channels);
    pthread_mutex_lock(&channels->lock);
    struct rpc_channel *before = renew(channels, pems);
    struct rpc_channel *channel = channels->newest;
    channel->references++;
    pthread_mutex_unlock(&channels->lock);
    if (before)
        rpc_channels_drop(channels, before);
    tls_pems_drop(pems);
    return channel;
}

void rpc_channels_drop(struct rpc_channels *channels, struct rpc_channel *channel) {
    pthread_mutex_lock(&channels->lock);
    bool is_last = --channel->references == 0;
    pthread_mutex_unlock(&channels->lock);
    if (!is_last)
        return;
    grpc_channel_destroy(channel->core);
    free(channel);
}
