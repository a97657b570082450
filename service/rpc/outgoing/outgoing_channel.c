/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/outgoing/outgoing_channel.h"

#include "api/os/secret_file.h"

#include <grpc/compression.h>
#include <grpc/grpc_security.h>
#include <string.h>

#define MAX_PEM (1u << 20)

struct pems {
    struct sonde_buf ca, cert, key;
};

static sonde_err read_pems(const struct rpc_outgoing_options *options, struct pems *pems,
                           struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    pems->ca.limit = pems->cert.limit = pems->key.limit = MAX_PEM;
    if (options->ca_file)
        err = sonde_file_read(options->ca_file, "CA", SONDE_FILE_PLAIN, &pems->ca, diag);
    if (!err && options->cert_file)
        err =
            sonde_file_read(options->cert_file, "certificate", SONDE_FILE_PLAIN, &pems->cert, diag);
    if (!err && options->key_file)
        err = sonde_file_read(options->key_file, "key", SONDE_FILE_SECRET, &pems->key, diag);
    if (!err && (pems->cert.data == NULL) != (pems->key.data == NULL))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "a client certificate needs its key, and a key its certificate");
    return err;
}

static sonde_err make_credentials(const struct rpc_outgoing_options *options,
                                  grpc_channel_credentials **credentials, struct sonde_diag *diag) {
    struct pems pems = {0};
    if (!options->is_tls) {
        *credentials = grpc_insecure_credentials_create();
        return SONDE_OK;
    }
    sonde_err err = read_pems(options, &pems, diag);
    if (!err) {
        grpc_ssl_pem_key_cert_pair pair = {pems.key.data, pems.cert.data};
        *credentials =
            grpc_ssl_credentials_create(pems.ca.data, pems.key.data ? &pair : NULL, NULL, NULL);
    }
    if (pems.key.data)
        explicit_bzero(pems.key.data, pems.key.len);
    sonde_buf_finish(&pems.ca);
    sonde_buf_finish(&pems.cert);
    sonde_buf_finish(&pems.key);
    return err;
}

/* The caller repeats calls itself, so the channel does not. */
static grpc_channel *make_channel(const struct rpc_outgoing_options *options,
                                  grpc_channel_credentials *credentials) {
    uint32_t keepalive_ms = options->keepalive_ms ? options->keepalive_ms : INT32_MAX;
    uint32_t max_answer = options->max_answer ? options->max_answer : RPC_OUTGOING_MAX_ANSWER;
    const struct {
        const char *key;
        int value;
    } settings[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)max_answer},
        {GRPC_ARG_KEEPALIVE_TIME_MS, (int)keepalive_ms},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
        {GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
         options->is_compressed ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_NONE},
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
    return grpc_channel_create(options->address, credentials, &all);
}

sonde_err outgoing_channel_create(const struct rpc_outgoing_options *options,
                                  grpc_channel **channel, struct sonde_diag *diag) {
    grpc_channel_credentials *credentials = NULL;
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
                          options->address);
    return SONDE_OK;
}
