/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/chain.h"

#include "tests/unit/check.h"

TEST(chained_actions_are_read_as_they_were_written) {
    struct chain_action action = {(uint64_t)chain_read, 0x1234, 0xff00ff00}, read;
    chain_write(&chains[CHAIN_PROF], &action);
    read = chain_read(&chains[CHAIN_PROF]);
    CHECK(memcmp(&read, &action, sizeof read) == 0);
}
