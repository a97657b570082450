/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/tls_files.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_S 20

static char folder[64], cert[96], key[96], ca[96], logged[8][320];
static size_t log_count;

static void log_line(const char *line) {
    if (log_count < sizeof logged / sizeof logged[0])
        snprintf(logged[log_count], sizeof logged[0], "%s", line);
    log_count++;
}

static void shell(const char *format, ...) {
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    CHECK_INT(system(command), ==, 0);
}

/* NAME.pem and NAME.key, which sign themselves. */
static void make(const char *name) {
    shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
          "/CN=%s -keyout %s/%s.key -out %s/%s.pem 2>%s/log",
          name, folder, name, folder, name, folder);
}

static void begin(void) {
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(cert, sizeof cert, "%s/cert", folder);
    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(ca, sizeof ca, "%s/old.pem", folder);
    log_count = 0;
    make("old");
    make("new");
    shell("cp %s/old.pem %s && cp %s/old.key %s && chmod 600 %s", folder, cert, folder, key, key);
}

static void end(struct tls_files *files) {
    tls_files_destroy(files);
    shell("rm -r %s", folder);
}

static struct tls_files *open_files(void) {
    const struct tls_files_options options = {.cert_file = cert,
                                              .key_file = key,
                                              .ca_file = ca,
                                              .key_kind = SONDE_FILE_SECRET,
                                              .log = log_line};
    struct tls_files *files = NULL;
    CHECK_INT(tls_files_create(&options, &files, NULL), ==, SONDE_OK);
    return files;
}

static uint64_t version(struct tls_files *files) {
    const struct tls_pems *pems = tls_files_take(files);
    uint64_t number = pems->version;
    tls_pems_drop(pems);
    return number;
}

static bool comes_to(struct tls_files *files, uint64_t wanted, size_t lines) {
    for (int i = 0; i < WAIT_S * 50 && (version(files) != wanted || log_count < lines); i++)
        usleep(20000);
    return version(files) == wanted && log_count == lines;
}

TEST(a_half_replaced_pair_is_not_used_until_both_files_are_there) {
    begin();
    struct tls_files *files = open_files();
    const struct tls_pems *before = tls_files_take(files);
    shell("cp %s/new.pem %s", folder, cert);
    CHECK(comes_to(files, 1, 1));
    CHECK(strstr(logged[0], "/cert stays as it was: ") != NULL);
    CHECK(strstr(logged[0], "do not match: replace both") != NULL);
    shell("cat %s/new.key >%s", folder, key);
    CHECK(comes_to(files, 2, 2));
    CHECK(strstr(logged[1], "/cert was read again") != NULL);
    const struct tls_pems *after = tls_files_take(files);
    CHECK_STR(before->ca, before->cert); /* a set in use does not change */
    CHECK(strcmp(after->cert, before->cert) != 0);
    CHECK(strcmp(after->key, before->key) != 0);
    tls_pems_drop(before);
    tls_pems_drop(after);
    end(files);
}

TEST(a_certificate_cut_off_while_it_was_written_is_not_used) {
    begin();
    struct tls_files *files = open_files();
    shell("head -c 200 %s/new.pem >%s", folder, cert);
    CHECK(comes_to(files, 1, 1));
    CHECK(strstr(logged[0], "is not a certificate (PEM)") != NULL);
    shell("cat %s/old.pem >%s", folder, cert);
    CHECK(comes_to(files, 1, 2));
    CHECK(strstr(logged[1], "/cert can be read again, and is the same") != NULL);
    end(files);
}

TEST(a_new_ca_is_used) {
    begin();
    struct tls_files *files = open_files();
    shell("cat %s/new.pem >>%s", folder, ca);
    CHECK(comes_to(files, 2, 1));
    end(files);
}

static void refused(sonde_err expected, const char *text) {
    const struct tls_files_options options = {
        .cert_file = cert, .key_file = key, .ca_file = ca, .key_kind = SONDE_FILE_SECRET};
    struct tls_files *files = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(tls_files_create(&options, &files, &diag), ==, expected);
    CHECK(strstr(diag.text, text) != NULL);
    CHECK(files == NULL);
}

TEST(files_that_cannot_be_used_are_refused_by_name) {
    begin();
    shell("cp %s/new.key %s", folder, key);
    refused(SONDE_INVALID_ARGUMENT, "do not match");
    shell("openssl ec -in %s/old.key -aes128 -passout pass:x -out %s 2>%s/log", folder, key,
          folder);
    refused(SONDE_INVALID_ARGUMENT, "/key is not a private key without a passphrase (PEM)");
    shell("cat %s/old.key >%s && chmod 644 %s", folder, key, key);
    refused(SONDE_PERMISSION_DENIED, "other users can read the key");
    shell("chmod 600 %s && : >%s", key, ca);
    refused(SONDE_INVALID_ARGUMENT, "old.pem is not a CA certificate (PEM)");
    shell("head -c 2000000 /dev/zero >%s", cert);
    refused(SONDE_TOO_LARGE, "the certificate");
    unlink(cert);
    refused(SONDE_IO, "cannot open the certificate");
    end(NULL);
}

TEST(a_certificate_needs_its_key) {
    const struct tls_files_options options = {.cert_file = "/nothing"};
    struct tls_files *files = NULL;
    struct sonde_diag diag = {0};
    CHECK_INT(tls_files_create(&options, &files, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "a certificate needs its key, and a key its certificate");
}
