/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for the TCP listeners: 1.2 or newer, no renegotiation, ALPN. A client certificate is
 * optional, because a token is enough. The handshake stores the certificate's trust in the
 * connection. The request is refused later, because only an HTTP answer can say why.
 *
 * When the files have changed (api/os/secrets/tls_files.h), connections that are accepted from then
 * on get a new context. Each connection holds a reference to its own, because h2o uses it until the
 * handshake is over. */
#include "gateway/http/http_server.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

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

static void copy_name(char *out, size_t size, const ASN1_STRING *name) {
    snprintf(out, size, "%.*s", ASN1_STRING_length(name), ASN1_STRING_get0_data(name));
}

/* The common name, otherwise the first DNS name. */
static void note_name(struct connection *connection, X509 *certificate) {
    char *out = connection->certificate;
    size_t size = sizeof connection->certificate;
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    if (at >= 0)
        copy_name(out, size, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    for (int i = 0; !*out && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            copy_name(out, size, name->d.dNSName);
    }
    GENERAL_NAMES_free(names);
}

static int on_verify(int good, X509_STORE_CTX *store) {
    struct connection *connection = connection_of(store);
    if (!good || !connection || X509_STORE_CTX_get_error_depth(store) != 0)
        return good;
    note_name(connection, X509_STORE_CTX_get_current_cert(store));
    if (is_listed(&connection->server->options, X509_STORE_CTX_get_current_cert(store)))
        connection->trust = HTTP_CERTIFIED;
    else if (connection->trust != HTTP_LOCAL)
        connection->trust = HTTP_CERT_REFUSED;
    return good;
}

/* Without it, OpenSSL would ask for a passphrase on the terminal. */
static int no_passphrase(char *out, int size, int is_write, void *context) {
    (void)out, (void)size, (void)is_write, (void)context;
    return -1;
}

static sonde_err openssl_failed(struct sonde_diag *diag, const char *what) {
    char reason[160];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    ERR_clear_error();
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "cannot use the %s: %s", what, reason);
}

/* Calls `add` with each certificate, which it takes only if it returns 1; the first is number 0.
 * Whether all were taken. */
static bool for_each_certificate(SSL_CTX *ssl, const char *pem,
                                 bool (*add)(SSL_CTX *ssl, X509 *certificate, int number)) {
    BIO *bytes = BIO_new_mem_buf(pem, -1);
    X509 *certificate;
    bool is_good = bytes != NULL;
    for (int number = 0;
         is_good && (certificate = PEM_read_bio_X509(bytes, NULL, no_passphrase, NULL)); number++) {
        is_good = add(ssl, certificate, number);
        X509_free(certificate);
    }
    /* The end of the text is an error, too. */
    is_good = is_good && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (is_good)
        ERR_clear_error();
    BIO_free(bytes);
    return is_good;
}

/* The server's own certificate, then those that lead to its CA. */
static bool add_to_chain(SSL_CTX *ssl, X509 *certificate, int number) {
    return number == 0 ? SSL_CTX_use_certificate(ssl, certificate) == 1
                       : SSL_CTX_add1_chain_cert(ssl, certificate) == 1;
}

static bool add_client_ca(SSL_CTX *ssl, X509 *certificate, int number) {
    (void)number;
    return X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), certificate) == 1 &&
           SSL_CTX_add_client_CA(ssl, certificate) == 1;
}

static bool use_key(SSL_CTX *ssl, const char *pem) {
    BIO *bytes = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bytes ? PEM_read_bio_PrivateKey(bytes, NULL, no_passphrase, NULL) : NULL;
    bool is_good = key && SSL_CTX_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bytes);
    return is_good;
}

static sonde_err load(SSL_CTX *ssl, const struct tls_pems *pems, struct sonde_diag *diag) {
    if (!for_each_certificate(ssl, pems->cert, add_to_chain))
        return openssl_failed(diag, "file of --tls-cert");
    if (!use_key(ssl, pems->key))
        return openssl_failed(diag, "file of --tls-key");
    if (!pems->ca)
        return SONDE_OK;
    if (!for_each_certificate(ssl, pems->ca, add_client_ca))
        return openssl_failed(diag, "file of --tls-client-ca");
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, on_verify);
    /* A resumed session would skip on_verify, which sets the trust. */
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ssl, 0);
    return SONDE_OK;
}

static sonde_err make_context(const struct http_server *server, const struct tls_pems *pems,
                              SSL_CTX **made, struct sonde_diag *diag) {
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!ssl)
        return openssl_failed(diag, "TLS library");
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    sonde_err err = load(ssl, pems, diag);
    if (err) {
        SSL_CTX_free(ssl);
        return err;
    }
    h2o_ssl_register_alpn_protocols(ssl,
                                    server->offers_http2 ? h2o_http2_alpn_protocols : only_http1);
    *made = ssl;
    return SONDE_OK;
}

/* Makes the newest files the context of later connections. */
static sonde_err refresh(struct http_server *server, struct sonde_diag *diag) {
    const struct tls_pems *pems = tls_files_take(server->tls);
    SSL_CTX *made = NULL;
    sonde_err err = SONDE_OK;
    if (pems->version != server->tls_version)
        err = make_context(server, pems, &made, diag);
    if (made) {
        SSL_CTX_free(server->ssl);
        server->ssl = made;
    }
    server->tls_version = pems->version;
    tls_pems_drop(pems);
    return err;
}

sonde_err http_tls_create(struct http_server *server, bool http2, struct sonde_diag *diag) {
    const struct http_options *options = &server->options;
    const struct tls_files_options files = {.cert_file = options->cert_file,
                                            .key_file = options->key_file,
                                            .ca_file = options->client_ca_file,
                                            .log = options->report};
    server->offers_http2 = http2;
    sonde_err err = tls_files_create(&files, &server->tls, diag);
    if (!err)
        err = refresh(server, diag);
    if (err)
        http_tls_destroy(server);
    return err;
}

/* tls_files.h has checked the first certificate, the key and the CA. A chain that is damaged
 * further down is noticed here; then the context stays as it is. */
SSL_CTX *http_tls_take(struct http_server *server) {
    struct sonde_diag diag = {0};
    if (!server->tls)
        return NULL;
    if (refresh(server, &diag) && server->options.report)
        server->options.report(diag.text);
    SSL_CTX_up_ref(server->ssl);
    return server->ssl;
}

void http_tls_destroy(struct http_server *server) {
    SSL_CTX_free(server->ssl);
    server->ssl = NULL;
    tls_files_destroy(server->tls);
    server->tls = NULL;
}
