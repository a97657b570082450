/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for the TCP listeners: 1.2 or newer, no renegotiation, ALPN. A client certificate is
 * optional, because a token is enough. The handshake stores the certificate's trust in the
 * connection. The request is refused later, because only an HTTP answer can say why. */
#include "gateway/http/http_server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static const h2o_iovec_t only_http1[] = {{(char *)"http/1.1", 8}, {NULL, 0}};

/* h2o stores its socket in the BIO; our connection is in the socket's on_close.data. */
static struct connection *connection_of(X509_STORE_CTX *store) {
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    h2o_socket_t *sock = ssl ? BIO_get_data(SSL_get_rbio(ssl)) : NULL;
    return sock ? sock->on_close.data : NULL;
}

static bool is_listed(const struct http_options *options, X509 *certificate) {
    if (options->client_name_count == 0)
        return true;
    for (size_t i = 0; i < options->client_name_count; i++)
        if (X509_check_host(certificate, options->client_names[i], 0,
                            X509_CHECK_FLAG_ALWAYS_CHECK_SUBJECT, NULL) == 1)
            return true;
    return false;
}

static int on_verify(int good, X509_STORE_CTX *store) {
    struct connection *connection = connection_of(store);
    if (!good || !connection || X509_STORE_CTX_get_error_depth(store) != 0)
        return good;
    if (is_listed(&connection->server->options, X509_STORE_CTX_get_current_cert(store)))
        connection->trust = HTTP_CERTIFIED;
    else if (connection->trust != HTTP_LOCAL)
        connection->trust = HTTP_CERT_REFUSED;
    return good;
}

static sonde_err openssl_failed(struct sonde_diag *diag, const char *what) {
    char reason[160];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "cannot use the %s: %s", what, reason);
}

static sonde_err load(struct http_server *server, struct sonde_diag *diag) {
    const struct http_options *options = &server->options;
    if (SSL_CTX_use_certificate_chain_file(server->ssl, options->cert_file) != 1)
        return openssl_failed(diag, "file of --tls-cert");
    if (SSL_CTX_use_PrivateKey_file(server->ssl, options->key_file, SSL_FILETYPE_PEM) != 1)
        return openssl_failed(diag, "file of --tls-key");
    if (!options->client_ca_file)
        return SONDE_OK;
    if (SSL_CTX_load_verify_locations(server->ssl, options->client_ca_file, NULL) != 1)
        return openssl_failed(diag, "file of --tls-client-ca");
    SSL_CTX_set_client_CA_list(server->ssl, SSL_load_client_CA_file(options->client_ca_file));
    SSL_CTX_set_verify(server->ssl, SSL_VERIFY_PEER, on_verify);
    /* A resumed session would skip on_verify, which sets the trust. */
    SSL_CTX_set_session_cache_mode(server->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(server->ssl, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(server->ssl, 0);
    return SONDE_OK;
}

sonde_err http_tls_create(struct http_server *server, bool http2, struct sonde_diag *diag) {
    server->ssl = SSL_CTX_new(TLS_server_method());
    if (!server->ssl)
        return openssl_failed(diag, "TLS library");
    SSL_CTX_set_min_proto_version(server->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(server->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    sonde_err err = load(server, diag);
    if (err) {
        http_tls_destroy(server);
        return err;
    }
    h2o_ssl_register_alpn_protocols(server->ssl, http2 ? h2o_http2_alpn_protocols : only_http1);
    return SONDE_OK;
}

void http_tls_destroy(struct http_server *server) {
    SSL_CTX_free(server->ssl);
    server->ssl = NULL;
}
