// SPDX-License-Identifier: Apache-2.0
//
// A program built like a C++ server: a pool of threads that take jobs, with virtual calls, templates, a lambda in a
// std::function and an occasional exception. It is built with -O2 -fomit-frame-pointer, and again stripped.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#define KEEP __attribute__((noinline, noclone))
static std::atomic<uint64_t> sink;

namespace shop {

KEEP uint64_t price_of(uint64_t seed, int rounds) {
    for (int i = 0; i < rounds; i++)
        asm volatile("imulq $0x5851f42d, %0, %0\n\tincq %0" : "+r"(seed));
    return seed;
}

template <typename Number> struct Basket {
    KEEP Number sum(Number seed, int rounds) {
        Number result = price_of(seed, rounds) + 1;
        asm volatile("" : "+r"(result));
        return result;
    }
};

struct Job {
    virtual ~Job() = default;
    virtual uint64_t run(uint64_t seed) = 0;
};

struct Checkout final : Job {
    KEEP uint64_t run(uint64_t seed) override {
        Basket<uint64_t> basket;
        uint64_t result = basket.sum(seed, 60000);
        asm volatile("" : "+r"(result));
        return result;
    }
};

struct Refund final : Job {
    KEEP uint64_t run(uint64_t seed) override {
        uint64_t result = price_of(seed, 20000);
        if (result % 64 == 0)
            throw std::runtime_error("refused");
        asm volatile("" : "+r"(result));
        return result;
    }
};

KEEP void work(const std::function<uint64_t(Job &, uint64_t)> &each) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(std::make_unique<Checkout>());
    jobs.push_back(std::make_unique<Refund>());
    for (uint64_t i = 1;; i++) {
        try {
            sink += each(*jobs[i % 2], i);
        } catch (const std::exception &) {
            sink += 1;
        }
    }
}

} // namespace shop

int main() {
    std::vector<std::thread> pool;
    for (int i = 0; i < 3; i++)
        pool.emplace_back([] { shop::work([](shop::Job &job, uint64_t seed) { return job.run(seed) + 1; }); });
    std::puts("ready");
    std::fflush(stdout);
    for (auto &thread : pool)
        thread.join();
}
