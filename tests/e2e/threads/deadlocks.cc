// SPDX-License-Identifier: Apache-2.0
//
// Threads that block each other, and threads that only wait:
//
//     two-a, two-b               each holds a std::mutex and waits for the other's
//     three-a, three-b, three-c  the same with pthread_mutex_t on the heap, in a circle
//     rw-reader, rw-writer       a mutex, and a read-write lock that is held for writing
//     self                       locks its mutex twice
//     holder                     holds locks of five kinds and sleeps
//     queue-*                    wait for these
//     timed-a, timed-b           a circle of waits with a timeout
//     busy-*                     lock and unlock two mutexes, in the same order
//     idle-*                     wait for work
//     liar-*                     wait for mutexes whose owner is not a thread of this process
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

namespace shop {
std::mutex orders, stock, prices, twice, ready_mutex, again;
std::condition_variable ready;
pthread_rwlock_t catalogue = PTHREAD_RWLOCK_INITIALIZER, index_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t read_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t lying[2];
pthread_mutex_t recursive, inheriting, robust, timed[2], busy[2];
sem_t work;
std::atomic<int> arrived;

NOINLINE void meet(int count) {
    static std::atomic<int> met[8];
    met[count & 7]++;
    while (met[count & 7] < count >> 3)
        usleep(100);
}

// Each group of threads that meets has a number below 8.
constexpr int group(int number, int threads) {
    return threads << 3 | number;
}

NOINLINE void take_order() {
    std::lock_guard<std::mutex> first(orders);
    meet(group(0, 2));
    std::lock_guard<std::mutex> second(stock);
    usleep(1);
}

NOINLINE void take_stock() {
    std::lock_guard<std::mutex> first(stock);
    meet(group(0, 2));
    std::unique_lock<std::mutex> second(orders);
    usleep(1);
}

NOINLINE void pass_on(pthread_mutex_t *own, pthread_mutex_t *next) {
    pthread_mutex_lock(own);
    meet(group(1, 3));
    pthread_mutex_lock(next);
    usleep(1);
}

NOINLINE void read_catalogue() {
    std::lock_guard<std::mutex> first(prices);
    meet(group(2, 2));
    pthread_rwlock_rdlock(&catalogue);
    usleep(1);
}

NOINLINE void write_catalogue() {
    pthread_rwlock_wrlock(&catalogue);
    meet(group(2, 2));
    prices.lock();
    usleep(1);
}

NOINLINE void lock_twice() {
    std::lock_guard<std::mutex> first(twice);
    twice.lock();
    usleep(1);
}

NOINLINE void hold() {
    pthread_mutex_lock(&plain);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&inheriting);
    pthread_mutex_lock(&robust);
    pthread_rwlock_wrlock(&index_lock);
    pthread_rwlock_rdlock(&read_lock);
    arrived++;
    for (;;)
        pause();
}

NOINLINE void queue(pthread_mutex_t *mutex) {
    while (arrived == 0)
        usleep(100);
    pthread_mutex_lock(mutex);
    usleep(1);
}

NOINLINE void queue_writer(pthread_rwlock_t *lock) {
    while (arrived == 0)
        usleep(100);
    pthread_rwlock_wrlock(lock);
    usleep(1);
}

NOINLINE void wait_for_an_hour(int own) {
    timespec end;
    pthread_mutex_lock(&timed[own]);
    meet(group(3, 2));
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 3600;
    pthread_mutex_timedlock(&timed[!own], &end);
    usleep(1);
}

NOINLINE void lock_in_order() {
    for (;;) {
        pthread_mutex_lock(&busy[0]);
        pthread_mutex_lock(&busy[1]);
        usleep(100);
        pthread_mutex_unlock(&busy[1]);
        pthread_mutex_unlock(&busy[0]);
    }
}

NOINLINE void wait_for_condition() {
    std::unique_lock<std::mutex> lock(ready_mutex);
    for (;;)
        ready.wait(lock);
}

NOINLINE void wait_for_semaphore() {
    for (;;)
        sem_wait(&work);
}

// A condition's wait ends, but its mutex is taken.
NOINLINE void wait_for_mutex_again(std::condition_variable *signalled) {
    std::unique_lock<std::mutex> lock(again);
    meet(group(4, 2));
    signalled->wait(lock);
}

NOINLINE void signal_and_hold(std::condition_variable *signalled) {
    meet(group(4, 2));
    again.lock();
    signalled->notify_one();
    for (;;)
        pause();
}
} // namespace shop

template <typename Function> static void start(const char *name, Function function) {
    std::thread([=] {
        prctl(PR_SET_NAME, name);
        function();
    }).detach();
}

static void make_mutexes() {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&shop::recursive, &kind);
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&shop::inheriting, &kind);
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shop::robust, &kind);
    sem_init(&shop::work, 0, 0);
}

static void start_liars() {
    using namespace shop;
    static const int owners[] = {1, 0x7fffffff};
    for (int i = 0; i < 2; i++) {
        lying[i].__data.__lock = 2;
        lying[i].__data.__owner = owners[i];
    }
    start("liar-init", [] { queue(&lying[0]); });
    start("liar-large", [] { queue(&lying[1]); });
}

static void start_waits() {
    using namespace shop;
    auto *signalled = new std::condition_variable;
    start("holder", hold);
    start("queue-plain-1", [] { queue(&plain); });
    start("queue-plain-2", [] { queue(&plain); });
    start("queue-recursive", [] { queue(&recursive); });
    start("queue-inherit", [] { queue(&inheriting); });
    start("queue-robust", [] { queue(&robust); });
    start("queue-writer", [] { queue_writer(&index_lock); });
    start("queue-at-reader", [] { queue_writer(&read_lock); });
    start("timed-a", [] { wait_for_an_hour(0); });
    start("timed-b", [] { wait_for_an_hour(1); });
    start("busy-a", lock_in_order);
    start("busy-b", lock_in_order);
    start("idle-condition", wait_for_condition);
    start("idle-semaphore", wait_for_semaphore);
    start("queue-again", [=] { wait_for_mutex_again(signalled); });
    start("signaller", [=] { signal_and_hold(signalled); });
}

int main() {
    using namespace shop;
    auto *circle = new pthread_mutex_t[3]();
    make_mutexes();
    start("two-a", take_order);
    start("two-b", take_stock);
    start("three-a", [=] { pass_on(&circle[0], &circle[1]); });
    start("three-b", [=] { pass_on(&circle[1], &circle[2]); });
    start("three-c", [=] { pass_on(&circle[2], &circle[0]); });
    start("rw-reader", read_catalogue);
    start("rw-writer", write_catalogue);
    start("self", lock_twice);
    start_waits();
    start_liars();
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
