/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/peer.h"

#include "tests/unit/check.h"

#include <sys/socket.h>
#include <unistd.h>

#define NOBODY 65534u

static const char everybody[] = "         0          0 4294967295\n";

TEST(root_and_the_own_user_may_serve_and_nobody_else) {
    CHECK(peer_is_allowed(1000, 1000, everybody, NOBODY));
    CHECK(peer_is_allowed(1000, 0, everybody, NOBODY));
    CHECK(peer_is_allowed(0, 0, everybody, NOBODY));
    CHECK(!peer_is_allowed(1000, 1001, everybody, NOBODY));
    CHECK(!peer_is_allowed(0, 1000, everybody, NOBODY));
    CHECK(!peer_is_allowed(0, NOBODY, everybody, NOBODY));
    CHECK(!peer_is_allowed(1000, UINT32_MAX, everybody, NOBODY));
}

TEST(the_overflow_uid_is_somebody_only_where_every_user_is_mapped) {
    CHECK(peer_is_allowed(NOBODY, NOBODY, everybody, NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "         0     100000      65536\n", NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "         0       1000          1\n", NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "0 0 4294967294\n", NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "0 1 4294967295\n", NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "0 0 99999999999999999999\n", NOBODY));
    CHECK(!peer_is_allowed(NOBODY, NOBODY, "", NOBODY));
    CHECK(peer_is_allowed(NOBODY, NOBODY, "", 4000)); /* another overflow uid */
    CHECK(!peer_is_allowed(4000, 4000, "", 4000));
    CHECK(peer_is_allowed(1000, 1000, "0 1000 1\n", NOBODY));
}

TEST(the_peer_of_a_socket_is_the_one_who_made_it) {
    int pair[2];
    uint32_t uid;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), ==, 0);
    CHECK(peer_may_serve(pair[0], &uid));
    CHECK_INT(uid, ==, geteuid());
    close(pair[0]);
    CHECK(!peer_may_serve(pair[0], &uid));
    CHECK_INT(uid, ==, UINT32_MAX);
    close(pair[1]);
}
