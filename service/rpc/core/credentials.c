/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/credentials.h"

#include "api/os/secret_file.h"

#include <string.h>

#define MAX_PEM (1u << 20)

struct pems {
    struct sonde_buf cert, key, client_ca;
};

static sonde_err read_pems(const struct rpc_server_options *options, struct pems *pems,
                           struct sonde_diag *diag) {
    pems->cert.limit = pems->key.limit = pems->client_ca.limit = MAX_PEM;
    sonde_err err =
        sonde_file_read(options->cert_file, "certificate", SONDE_FILE_PLAIN, &pems->cert, diag);
    if (!err)
        err = sonde_file_read(options->key_file, "key", SONDE_FILE_SECRET, &pems->key, diag);
    if (!err && options->client_ca_file)
        err = sonde_file_read(options->client_ca_file, "client CA", SONDE_FILE_PLAIN,
                              &pems->client_ca, diag);
    return err;
}

static grpc_server_credentials *make_tls(const struct pems *pems) {
    grpc_ssl_pem_key_cert_pair pair = {pems->key.data, pems->cert.data};
    grpc_ssl_server_certificate_config *config =
        grpc_ssl_server_certificate_config_create(pems->client_ca.data, &pair, 1);
    grpc_ssl_server_credentials_options *ssl =
        grpc_ssl_server_credentials_create_options_using_config(
            pems->client_ca.data ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                 : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            config);
    return ssl ? grpc_ssl_server_credentials_create_with_options(ssl) : NULL;
}

static void finish(struct pems *pems) {
    if (pems->key.data)
        explicit_bzero(pems->key.data, pems->key.len);
    sonde_buf_finish(&pems->cert);
    sonde_buf_finish(&pems->key);
    sonde_buf_finish(&pems->client_ca);
}

sonde_err rpc_credentials_create(const struct rpc_server_options *options,
                                 grpc_server_credentials **credentials, struct sonde_diag *diag) {
    struct pems pems = {0};
    if (!options->cert_file && !options->key_file && !options->client_ca_file) {
        *credentials = grpc_insecure_server_credentials_create();
        return SONDE_OK;
    }
    if (!options->cert_file || !options->key_file)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "TLS needs both a certificate and its key");
    sonde_err err = read_pems(options, &pems, diag);
    if (!err && (!pems.cert.data || !pems.key.data))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the certificate or its key is empty");
    if (!err && !(*credentials = make_tls(&pems)))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "the certificate and the key do not match or are not valid");
    finish(&pems);
    return err;
}
