// SPDX-License-Identifier: Apache-2.0
//
// A C++ server that links libsonde.so and calls sonde_start once, instead of being started by `sonde run`. It labels its
// threads with their role and with the request they work on; profiles show both labels.
//
//     g++ -O2 -I PREFIX/include embedded.cc -L PREFIX/lib -lsonde -Wl,-rpath,PREFIX/lib -pthread -o embedded
//     sonded & sonde-gateway & ./embedded
#include "sonde.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> stopping{false};
std::atomic<uint64_t> sink{0}, next_request{1};

__attribute__((noinline)) uint64_t resize_image(uint64_t seed) {
    for (int i = 0; i < 200000; i++)
        asm volatile("imulq $0x5851f42d, %0, %0\n\tincq %0" : "+r"(seed));
    return seed;
}

void worker(const char *role) {
    sonde_label_thread(role);
    while (!stopping) {
        uint64_t request = next_request++;
        sonde_label_request(request); // one store
        sink += resize_image(request);
        sonde_label_request(0);
    }
}

} // namespace

int main() {
    std::signal(SIGTERM, [](int) { stopping = true; });
    // EALREADY: the library was preloaded and has already started. A server must not fail because profiling does.
    int error = sonde_start(nullptr);
    if (error != 0 && error != EALREADY)
        std::fprintf(stderr, "sonde: %s\n", std::strerror(error));
    std::vector<std::thread> pool;
    for (const char *role : {"thumbnails", "previews"})
        pool.emplace_back(worker, role);
    std::puts("ready");
    std::fflush(stdout);
    while (!stopping)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (auto &thread : pool)
        thread.join();
    std::printf("%s\n", sonde_status());
    sonde_stop();
}
