// SPDX-License-Identifier: Apache-2.0
// A server with a statically linked jemalloc. Each round, parse_request allocates and frees 3 MiB in small blocks, encode_reply 1 MiB
// in one block, and grow_cache keeps 64 KiB, of at most 32 MiB.
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <time.h>
#include <vector>

namespace {

using Block = std::unique_ptr<char[]>;

volatile char sink;

[[gnu::noinline]] void parse_request() {
    std::vector<Block> parts;
    parts.reserve(3072);
    for (int i = 0; i < 3072; i++) {
        parts.emplace_back(new char[1024]);
        parts.back()[0] = static_cast<char>(i);
    }
    sink = parts[7][0];
}

[[gnu::noinline]] void encode_reply() {
    std::string reply(1 << 20, 'x');
    sink = reply[17];
}

[[gnu::noinline]] void grow_cache(std::deque<Block> &cache) {
    cache.emplace_back(new char[1 << 16]);
    memset(cache.back().get(), 1, 1 << 16);
    if (cache.size() > 512)
        cache.pop_front();
}

}  // namespace

int main() {
    std::deque<Block> cache;
    puts("ready");
    fflush(stdout);
    for (;;) {
        parse_request();
        encode_reply();
        grow_cache(cache);
        timespec pause = {0, 5000000};
        nanosleep(&pause, nullptr);
    }
}
