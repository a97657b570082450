/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/listen.h"
#include "service/rpc/server.h"
#include "tests/unit/check.h"
#include "tests/unit/rpc/fake_engine.h"

#include <stdio.h>

static struct rpc_address address;
static struct sonde_diag diag;

TEST(address_of_a_unix_socket_is_a_path) {
    CHECK_INT(rpc_address_parse("unix:/run/x.sock", &address, &diag), ==, SONDE_OK);
    CHECK_STR(address.path, "/run/x.sock");
    CHECK_INT(rpc_address_parse("unix:///run/x.sock", &address, &diag), ==, SONDE_OK);
    CHECK_STR(address.path, "/run/x.sock");
    CHECK_INT(rpc_address_parse("unix:x.sock", &address, &diag), ==, SONDE_OK);
    CHECK_STR(address.path, "x.sock");
}

TEST(address_of_tcp_distinguishes_loopback_from_the_rest) {
    CHECK_INT(rpc_address_parse("127.0.0.1:0", &address, &diag), ==, SONDE_OK);
    CHECK(address.is_loopback && !address.path);
    CHECK_INT(rpc_address_parse("127.9.9.9:80", &address, &diag), ==, SONDE_OK);
    CHECK(address.is_loopback);
    CHECK_INT(rpc_address_parse("0.0.0.0:80", &address, &diag), ==, SONDE_OK);
    CHECK(!address.is_loopback);
    CHECK_INT(address.port, ==, 80);
    CHECK_INT(rpc_address_parse("[::]:80", &address, &diag), ==, SONDE_OK);
    CHECK(!address.is_loopback);
    CHECK_INT(rpc_address_parse("[::1]:80", &address, &diag), ==, SONDE_OK);
    CHECK(address.is_loopback);
    CHECK_STR(address.host, "::1");
    CHECK_INT(rpc_address_parse("192.0.2.1:65535", &address, &diag), ==, SONDE_OK);
    CHECK(!address.is_loopback);
}

TEST(address_with_a_wrong_port_names_the_bounds) {
    CHECK_INT(rpc_address_parse("127.0.0.1:99999", &address, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "address \"127.0.0.1:99999\": the port must be a number from 0 to 65535");
    CHECK_INT(rpc_address_parse("host", &address, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "address \"host\" is neither unix:PATH nor HOST:PORT");
}

TEST(address_of_unknown_form_is_refused) {
    static const char *const wrong[] = {
        "",         ":",      ":80",   "host",  "1.2.3.4:", "h:80a",     "h:65536",
        "h:123456", "::1:80", "[::1]", "unix:", "[]:80",    "1.2.3.4:-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (rpc_address_parse(wrong[i], &address, &diag) != SONDE_INVALID_ARGUMENT)
            check_fail(__FILE__, __LINE__, "accepted: %s", wrong[i]);
    char path[200] = "unix:/";
    memset(path + 6, 'p', 150);
    CHECK_INT(rpc_address_parse(path, &address, &diag), ==, SONDE_INVALID_ARGUMENT);
}

TEST(a_port_that_is_taken_is_reported_in_one_sentence) {
    struct engine *engine = fake_engine_create();
    const char *addresses[] = {"127.0.0.1:0"};
    char taken[64], expected[160];
    struct rpc_server *first = NULL, *second = NULL;
    struct rpc_server_options options = {
        .engine = engine, .addresses = addresses, .address_count = 1};
    CHECK_INT(rpc_server_create(&options, &first, &diag), ==, SONDE_OK);
    snprintf(taken, sizeof taken, "%s", rpc_server_address(first, 0));
    addresses[0] = taken;
    CHECK_INT(rpc_server_create(&options, &second, &diag), ==, SONDE_IO);
    snprintf(expected, sizeof expected, "cannot listen on %s: Address already in use", taken);
    CHECK_STR(diag.text, expected);
    rpc_server_destroy(first);
    engine_destroy(engine);
}
