/* SPDX-License-Identifier: Apache-2.0
 *
 * The file with the certificate authorities that this system trusts. libcurl and OpenSSL have one
 * path compiled in, the one of the distribution that they were built for; the archive for other
 * distributions carries Debian's. gRPC looks for the file itself. Thread safety: any thread. */
#ifndef SONDE_API_OS_SECRETS_CA_BUNDLE_H
#define SONDE_API_OS_SECRETS_CA_BUNDLE_H

/* The file in CURL_CA_BUNDLE or else in SSL_CERT_FILE, or else the first readable file at one of
 * the paths of Debian, Fedora, openSUSE and Alpine. NULL if there is none. */
const char *sonde_ca_bundle(void);

/* The first of the files that can be read, or NULL; the list ends with NULL. */
const char *ca_bundle_find(const char *const files[]);

#endif
