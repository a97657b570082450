/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/ca_bundle.h"

#include "tests/unit/check.h"

#include <stdlib.h>

TEST(the_environment_names_the_file_even_if_it_does_not_exist) {
    setenv("SSL_CERT_FILE", "/no/such/second.pem", 1);
    setenv("CURL_CA_BUNDLE", "/no/such/first.pem", 1);
    CHECK_STR(sonde_ca_bundle(), "/no/such/first.pem");
    setenv("CURL_CA_BUNDLE", "", 1);
    CHECK_STR(sonde_ca_bundle(), "/no/such/second.pem");
    unsetenv("CURL_CA_BUNDLE");
    CHECK_STR(sonde_ca_bundle(), "/no/such/second.pem");
    unsetenv("SSL_CERT_FILE");
}

TEST(otherwise_it_is_the_first_readable_file) {
    const char *const second[] = {"/no/such/file", "/proc/self/maps", "/proc/self/stat", NULL};
    const char *const none[] = {"/no/such/file", NULL};
    CHECK_STR(ca_bundle_find(second), "/proc/self/maps");
    CHECK(!ca_bundle_find(none));
}
