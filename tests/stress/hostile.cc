// SPDX-License-Identifier: Apache-2.0
//
// A program that makes some profilers hang or crash: two threads dlopen, run and dlclose a library,
// one throws C++ exceptions through ten frames, and one calls dl_iterate_phdr and malloc. Each
// second it checks that all threads make progress; it fails if one makes none for five seconds.
// Usage: hostile SECONDS LIBRARY. With HOSTILE_PROFILE=FILE and libprofiler preloaded, gperftools
// profiles it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace {

std::atomic<bool> stop;
std::atomic<unsigned long> loads, throws, walks, wrong;
const char *library_path;

void load() {
    using work = unsigned long(unsigned long);
    while (!stop) {
        void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
        work *run = library ? reinterpret_cast<work *>(dlsym(library, "library_work")) : nullptr;
        if (!run || run(1) != run(1) || dlclose(library) != 0)
            wrong++;
        loads++;
    }
}

__attribute__((noinline)) int throw_from(int depth) {
    if (depth == 0)
        throw std::runtime_error("deep");
    volatile int below = throw_from(depth - 1);
    return below + 1;
}

void throw_and_catch() {
    while (!stop) {
        try {
            throw_from(10);
            wrong++;
        } catch (const std::runtime_error &) {
            throws++;
        }
    }
}

int count_object(struct dl_phdr_info *, size_t, void *count) {
    ++*static_cast<int *>(count);
    return 0;
}

void walk_objects() {
    while (!stop) {
        int count = 0;
        dl_iterate_phdr(count_object, &count);
        void *memory = std::malloc(static_cast<size_t>(count) * 100);
        if (count < 3 || !memory)
            wrong++;
        std::free(memory);
        walks++;
    }
}

// Starts gperftools' profiler if its library is loaded.
void start_peer() {
    const char *file = std::getenv("HOSTILE_PROFILE");
    auto start = reinterpret_cast<int (*)(const char *)>(dlsym(RTLD_DEFAULT, "ProfilerStart"));
    if (file && start && !start(file))
        std::fprintf(stderr, "ProfilerStart failed\n");
}

} // namespace

int main(int argc, char **argv) {
    int seconds = argc > 2 ? std::atoi(argv[1]) : 0;
    if (seconds <= 0)
        return 2;
    library_path = argv[2];
    std::printf("ready 0 0\n");
    std::fflush(stdout);
    char go;
    if (read(0, &go, 1) != 1)
        return 3;
    start_peer();
    std::thread threads[] = {std::thread(load), std::thread(load), std::thread(throw_and_catch),
                             std::thread(walk_objects)};
    unsigned long before[3] = {0, 0, 0};
    int still = 0;
    for (int second = 0; second < seconds && still < 5; second++) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        unsigned long now[3] = {loads, throws, walks};
        bool moved = now[0] != before[0] && now[1] != before[1] && now[2] != before[2];
        still = moved ? 0 : still + 1; // a busy machine may starve a thread for a moment
        for (int i = 0; i < 3; i++)
            before[i] = now[i];
    }
    stop = true;
    std::printf("loads %lu %lu\n", before[0], wrong.load());
    std::printf("throws %lu %d\n", before[1], still);
    std::fflush(stdout);
    if (still >= 5)
        _exit(1); // a thread hangs and cannot be joined
    for (auto &thread : threads)
        thread.join();
    if (read(0, &go, 1) < 0) // waits until the profiler has stopped
        return 3;
    return wrong != 0;
}
