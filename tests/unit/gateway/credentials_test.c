/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/credentials.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static const char *read_token(const char *header) {
    static char bearer[CREDENTIALS_SIZE];
    bool is_read = credentials_read(sonde_slice_of(header), bearer);
    return is_read ? bearer : "";
}

TEST(a_bearer_token_stays_as_it_is) {
    CHECK_STR(read_token("Bearer 0123456789abcdef"), "Bearer 0123456789abcdef");
    CHECK_STR(read_token("bearer   +/=.~"), "Bearer +/=.~");
}

TEST(the_password_of_basic_is_the_token_whoever_the_user_is) {
    CHECK_STR(read_token("Basic eDpzZWNyZXQ="), "Bearer secret");  /* x:secret */
    CHECK_STR(read_token("basic OnNlY3JldA=="), "Bearer secret");  /* :secret */
    CHECK_STR(read_token("Basic eDpzZWM6cmV0"), "Bearer sec:ret"); /* x:sec:ret */
    CHECK_STR(read_token("Basic eDpzZWNyZXQ"), "Bearer secret");   /* without padding */
}

TEST(without_a_password_the_user_is_the_token) {
    CHECK_STR(read_token("Basic c2VjcmV0Og=="), "Bearer secret"); /* secret: */
    CHECK_STR(read_token("Basic c2VjcmV0"), "Bearer secret");     /* secret */
}

TEST(broken_headers_have_no_token) {
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer two words",
                                      "Bearer \x7f",
                                      "Bearersecret",
                                      "Digest secret",
                                      "Basic",
                                      "Basic ",
                                      "Basic Og==",         /* : */
                                      "Basic eDpzZW Nyg",   /* a space inside */
                                      "Basic eDpzZWNyZXQ!", /* not base64 */
                                      "Basic eDphCmI=",     /* x:a\nb, another line */
                                      "Basic eDphAGI="};    /* x:a\0b */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (read_token(bad[i])[0])
            check_fail(__FILE__, __LINE__, "\"%s\" has the token \"%s\"", bad[i],
                       read_token(bad[i]));
    char bearer[CREDENTIALS_SIZE];
    CHECK(!credentials_read((struct sonde_slice){NULL, 0}, bearer));
}

TEST(the_longest_token_fits_and_a_longer_one_does_not) {
    static char header[2 * CREDENTIALS_SIZE];
    size_t longest = CREDENTIALS_SIZE - strlen("Bearer ") - 1;
    memset(header, 'a', sizeof header - 1);
    memcpy(header, "Bearer ", strlen("Bearer "));
    header[strlen("Bearer ") + longest] = 0;
    CHECK_STR(read_token(header), header);
    memset(header, 'a', sizeof header - 1);
    memcpy(header, "Bearer ", strlen("Bearer "));
    header[strlen("Bearer ") + longest + 1] = 0;
    CHECK_STR(read_token(header), "");
    memset(header, 'Q', sizeof header - 1);
    memcpy(header, "Basic ", strlen("Basic "));
    CHECK_STR(read_token(header), "");
}
