/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/tls_files.h"

#include "api/base/container_of.h"
#include "api/os/file_watch.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pem_set {
    struct tls_pems pems; /* points into the bufs */
    struct sonde_buf cert, key, ca;
    atomic_uint references;
};

struct tls_files {
    char *cert_file, *key_file, *ca_file;
    enum sonde_file_kind key_kind;
    pthread_mutex_t lock; /* guards the fields below; nothing else is locked under it */
    struct file_watch watch;
    struct pem_set *current;
};

/* ---- Checks ---- */

/* Without it, OpenSSL would ask for the passphrase on the terminal. */
static int no_passphrase(char *out, int size, int is_write, void *context) {
    (void)out, (void)size, (void)is_write, (void)context;
    return -1;
}

static X509 *read_certificate(const struct sonde_buf *pem) {
    BIO *bytes = BIO_new_mem_buf(pem->data, (int)pem->len);
    X509 *certificate = bytes ? PEM_read_bio_X509(bytes, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bytes);
    return certificate;
}

static EVP_PKEY *read_key(const struct sonde_buf *pem) {
    BIO *bytes = BIO_new_mem_buf(pem->data, (int)pem->len);
    EVP_PKEY *key = bytes ? PEM_read_bio_PrivateKey(bytes, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bytes);
    return key;
}

static sonde_err check_pair(const struct tls_files *files, const struct pem_set *set,
                            struct sonde_diag *diag) {
    X509 *certificate = read_certificate(&set->cert);
    EVP_PKEY *key = read_key(&set->key);
    sonde_err err = SONDE_OK;
    if (!certificate)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%.120s is not a certificate (PEM)",
                         files->cert_file);
    else if (!key)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "%.120s is not a private key without a passphrase (PEM)", files->key_file);
    else if (X509_check_private_key(certificate, key) != 1)
        err =
            sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%.120s and %.120s do not match: replace both",
                       files->cert_file, files->key_file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return err;
}

static sonde_err check_ca(const struct tls_files *files, const struct pem_set *set,
                          struct sonde_diag *diag) {
    X509 *certificate = read_certificate(&set->ca);
    bool is_good = certificate != NULL;
    X509_free(certificate);
    ERR_clear_error();
    return is_good ? SONDE_OK
                   : sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                "%.120s is not a CA certificate (PEM)", files->ca_file);
}

/* ---- Sets ---- */

static struct pem_set *set_of(const struct tls_pems *pems) {
    return container_of((struct tls_pems *)pems, struct pem_set, pems);
}

static void finish_secret(struct sonde_buf *buf) {
    if (buf->data)
        explicit_bzero(buf->data, buf->capacity);
    sonde_buf_finish(buf);
}

void tls_pems_drop(const struct tls_pems *pems) {
    struct pem_set *set = pems ? set_of(pems) : NULL;
    if (!set || atomic_fetch_sub(&set->references, 1) > 1)
        return;
    sonde_buf_finish(&set->cert);
    sonde_buf_finish(&set->ca);
    finish_secret(&set->key);
    free(set);
}

static sonde_err read_set(const struct tls_files *files, struct pem_set *set,
                          struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    set->cert.limit = set->key.limit = set->ca.limit = TLS_FILES_MAX_BYTES;
    if (files->cert_file)
        err = sonde_file_read(files->cert_file, "certificate", SONDE_FILE_PLAIN, &set->cert, diag);
    if (!err && files->key_file)
        err = sonde_file_read(files->key_file, "key", files->key_kind, &set->key, diag);
    if (!err && files->ca_file)
        err = sonde_file_read(files->ca_file, "CA", SONDE_FILE_PLAIN, &set->ca, diag);
    if (!err && files->cert_file)
        err = check_pair(files, set, diag);
    if (!err && files->ca_file)
        err = check_ca(files, set, diag);
    set->pems.cert = set->cert.data;
    set->pems.key = set->key.data;
    set->pems.ca = set->ca.data;
    return err;
}

static sonde_err create_set(const struct tls_files *files, struct pem_set **created,
                            struct sonde_diag *diag) {
    struct pem_set *set = calloc(1, sizeof *set);
    if (!set)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the TLS files");
    atomic_init(&set->references, 1);
    sonde_err err = read_set(files, set, diag);
    if (err)
        tls_pems_drop(&set->pems);
    else
        *created = set;
    return err;
}

static bool buf_equals(const struct sonde_buf *a, const struct sonde_buf *b) {
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static bool set_equals(const struct pem_set *a, const struct pem_set *b) {
    return buf_equals(&a->cert, &b->cert) && buf_equals(&a->key, &b->key) &&
           buf_equals(&a->ca, &b->ca);
}

/* Makes the set the current one, unless it is the same. */
static bool replace(struct tls_files *files, struct pem_set *set) {
    struct pem_set *before = files->current;
    if (set_equals(before, set)) {
        tls_pems_drop(&set->pems);
        return false;
    }
    set->pems.version = before->pems.version + 1;
    files->current = set;
    tls_pems_drop(&before->pems);
    return true;
}

static void read_again(struct tls_files *files) {
    struct sonde_diag diag = {0};
    struct pem_set *set = NULL;
    sonde_err err = create_set(files, &set, &diag);
    bool is_new = !err && replace(files, set);
    file_watch_report(&files->watch, err, &diag, is_new);
}

/* ---- The files ---- */

static bool copy_path(char **to, const char *from) {
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

static sonde_err init(struct tls_files *files, const struct tls_files_options *options,
                      struct sonde_diag *diag) {
    if (!copy_path(&files->cert_file, options->cert_file) ||
        !copy_path(&files->key_file, options->key_file) ||
        !copy_path(&files->ca_file, options->ca_file))
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the TLS files");
    if (!files->cert_file != !files->key_file)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a certificate needs its key, and a key its certificate");
    files->key_kind = options->key_kind;
    files->watch = (struct file_watch){.paths = {files->cert_file, files->key_file, files->ca_file},
                                       .what = files->cert_file ? "the certificate" : "the CA",
                                       .log = options->log};
    file_watch_begin(&files->watch);
    return create_set(files, &files->current, diag);
}

sonde_err tls_files_create(const struct tls_files_options *options, struct tls_files **created,
                           struct sonde_diag *diag) {
    struct tls_files *files = calloc(1, sizeof *files);
    if (!files)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the TLS files");
    pthread_mutex_init(&files->lock, NULL);
    sonde_err err = init(files, options, diag);
    if (err) {
        tls_files_destroy(files);
        return err;
    }
    files->current->pems.version = 1;
    *created = files;
    return SONDE_OK;
}

void tls_files_destroy(struct tls_files *files) {
    if (!files)
        return;
    if (files->current)
        tls_pems_drop(&files->current->pems);
    pthread_mutex_destroy(&files->lock);
    free(files->cert_file);
    free(files->key_file);
    free(files->ca_file);
    free(files);
}

const struct tls_pems *tls_files_take(struct tls_files *files) {
    pthread_mutex_lock(&files->lock);
    if (file_watch_is_due(&files->watch))
        read_again(files);
    struct pem_set *set = files->current;
    atomic_fetch_add(&set->references, 1);
    pthread_mutex_unlock(&files->lock);
    return &set->pems;
}

/* ---- Expiry ---- */

sonde_err tls_file_end(const char *path, int64_t *end_s, struct sonde_diag *diag) {
    struct sonde_buf pem = {.limit = TLS_FILES_MAX_BYTES};
    struct tm end = {0};
    sonde_err err = sonde_file_read(path, "certificate", SONDE_FILE_PLAIN, &pem, diag);
    X509 *certificate = err ? NULL : read_certificate(&pem);
    if (!err && (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%.200s is not a certificate (PEM)", path);
    if (!err)
        *end_s = timegm(&end);
    X509_free(certificate);
    sonde_buf_finish(&pem);
    ERR_clear_error();
    return err;
}
