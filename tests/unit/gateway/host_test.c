/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/host.h"

#include "tests/unit/check.h"

TEST(localhost_and_loopback_addresses_are_loopback) {
    static const char *const good[] = {
        "localhost",   "LOCALHOST:20180", "localhost.",  "redis.localhost:1", "127.0.0.1",
        "127.9.9.9:1", "[::1]",           "[::1]:20180", "[::ffff:127.0.0.1]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!host_is_loopback(sonde_slice_of(good[i])))
            check_fail(__FILE__, __LINE__, "%s is loopback", good[i]);
}

TEST(names_that_only_resemble_loopback_are_not) {
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "evil-localhost",
                                      ".localhost",
                                      "127.0.0.1.evil",
                                      "127.1",
                                      "0127.0.0.1",
                                      "10.0.0.1",
                                      "0.0.0.0",
                                      "[::]",
                                      "[::1",
                                      "::1",
                                      "localhost:80:80",
                                      "localhost:x",
                                      "localhost:123456",
                                      "[::1]x",
                                      "localhost@evil",
                                      "evil@localhost",
                                      "localhost/",
                                      " localhost",
                                      "[localhost]",
                                      "[10.0.0.1]",
                                      ":80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (host_is_loopback(sonde_slice_of(bad[i])))
            check_fail(__FILE__, __LINE__, "\"%s\" is not loopback", bad[i]);
    CHECK(!host_is_loopback((struct sonde_slice){"localhost\0", 10}));
}

TEST(an_address_is_recognised_and_a_name_is_not) {
    CHECK(host_is_address(sonde_slice_of("10.1.2.3:80")));
    CHECK(host_is_address(sonde_slice_of("[fe80::1]:80")));
    CHECK(!host_is_address(sonde_slice_of("ten.example")));
    CHECK(!host_is_address(sonde_slice_of("1.2.3")));
    CHECK(!host_is_address(sonde_slice_of("")));
}

TEST(names_are_compared_ignoring_case_and_port) {
    static const char *const names[] = {"profiler.corp", "other"};
    CHECK(host_is_listed(sonde_slice_of("Profiler.Corp:8443"), names, 2));
    CHECK(host_is_listed(sonde_slice_of("other."), names, 2));
    CHECK(!host_is_listed(sonde_slice_of("x.profiler.corp"), names, 2));
    CHECK(!host_is_listed(sonde_slice_of("profiler.corp"), names, 0));
}

TEST(a_star_matches_every_name) {
    static const char *const names[] = {"*"};
    CHECK(host_is_listed(sonde_slice_of("evil.example"), names, 1));
    CHECK(host_is_listed(sonde_slice_of("]["), names, 1));
}
