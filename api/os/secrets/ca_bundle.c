/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/ca_bundle.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const system_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch */
    "/etc/pki/tls/certs/ca-bundle.crt",                  /* RHEL, Fedora until 42 */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
    "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
    "/etc/ssl/cert.pem",                                 /* Alpine */
    NULL,
};

const char *ca_bundle_find(const char *const files[]) {
    for (; *files; files++)
        if (access(*files, R_OK) == 0)
            return *files;
    return NULL;
}

const char *sonde_ca_bundle(void) {
    static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *file = getenv(variables[i]);
        if (file && *file)
            return file;
    }
    return ca_bundle_find(system_files);
}
