/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/forwarded.h"

#include "tests/unit/check.h"

#include <string.h>

static const char *prefix_of(const char *header) {
    static char prefix[FORWARDED_PREFIX_SIZE];
    forwarded_prefix(sonde_slice_of(header), prefix);
    return prefix;
}

TEST(a_plain_path_is_the_prefix_without_its_last_slash) {
    CHECK_STR(prefix_of("/sonde"), "/sonde");
    CHECK_STR(prefix_of("/sonde/"), "/sonde");
    CHECK_STR(prefix_of("/tools/Sonde-1_2.~/web1"), "/tools/Sonde-1_2.~/web1");
}

TEST(what_is_no_plain_path_is_no_prefix) {
    static const char *const bad[] = {"",          "/",     "//",        "sonde", "//evil.example",
                                      "/a//b",     "/a\"b", "/<script>", "/a b",  "/a?b",
                                      "/a#b",      "/a%2f", "/a,/b",     "/a\\b", "/a\r\nb",
                                      "http://x/", "/a:b",  "/\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (prefix_of(bad[i])[0])
            check_fail(__FILE__, __LINE__, "\"%s\" is the prefix \"%s\"", bad[i],
                       prefix_of(bad[i]));
    char prefix[FORWARDED_PREFIX_SIZE] = "old";
    forwarded_prefix((struct sonde_slice){NULL, 0}, prefix);
    CHECK_STR(prefix, "");
}

TEST(a_prefix_that_does_not_fit_is_none) {
    char header[FORWARDED_PREFIX_SIZE + 1];
    memset(header, 'a', sizeof header);
    header[0] = '/';
    header[FORWARDED_PREFIX_SIZE] = 0;
    CHECK_STR(prefix_of(header), "");
    header[FORWARDED_PREFIX_SIZE - 1] = 0;
    CHECK_STR(prefix_of(header), header);
}
