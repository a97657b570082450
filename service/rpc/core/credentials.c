/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/credentials.h"

sonde_err rpc_tls_open(const struct rpc_server_options *options, struct tls_files **files,
                       struct sonde_diag *diag) {
    const struct tls_files_options wanted = {.cert_file = options->cert_file,
                                             .key_file = options->key_file,
                                             .ca_file = options->client_ca_file,
                                             .key_kind = SONDE_FILE_SECRET,
                                             .log = options->report};
    *files = NULL;
    if (options->client_name_count && !options->client_ca_file)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "names of client certificates need the CA that signs them: give "
                          "--tls-client-ca, too");
    if (!options->cert_file && !options->key_file && !options->client_ca_file)
        return SONDE_OK;
    if (!options->cert_file || !options->key_file)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "TLS needs both a certificate and its key");
    return tls_files_create(&wanted, files, diag);
}

/* Called by gRPC for the listener and for each handshake, one at a time. gRPC aborts without a
 * client CA, even if it asks for no client certificate: then it gets a certificate that it does not
 * use. */
static grpc_ssl_certificate_config_reload_status
fetch(void *context, grpc_ssl_server_certificate_config **config) {
    struct rpc_tls_user *user = context;
    const struct tls_pems *pems = tls_files_take(user->files);
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    if (pems->version != atomic_load(&user->version)) {
        grpc_ssl_pem_key_cert_pair pair = {pems->key, pems->cert};
        *config =
            grpc_ssl_server_certificate_config_create(pems->ca ? pems->ca : pems->cert, &pair, 1);
        atomic_store(&user->version, pems->version);
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    tls_pems_drop(pems);
    return status;
}

grpc_server_credentials *rpc_credentials_create(struct rpc_tls_user *user) {
    if (!user->files)
        return grpc_insecure_server_credentials_create();
    grpc_ssl_server_credentials_options *options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            user->asks_client ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                              : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            fetch, user);
    return options ? grpc_ssl_server_credentials_create_with_options(options) : NULL;
}
