/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo server: a server without sockets, whose CPU shares are known beforehand.
 *
 *     serve -> handle_request -> read_request   -> parse_header    10 %
 *                             -> write_response -> compress_block  20 %
 *                             -> apply_policy   -> match_rules     70 %
 *
 * The three leaves run the same chain of dependent multiplications, so their shares are the ratio
 * of their rounds on any machine and at any clock speed. The main thread and "housekeeping" sleep.
 *
 * --short runs each request in a thread of its own that lives about a millisecond, which is the
 * hardest thing to sample. --tick begins requests in step with a 4 ms tick, which a profiler with a
 * fixed phase sees always or never. --guide also waits and holds memory (backend.h). At its end the
 * demo prints the CPU time that its threads' own clocks have counted. */
#include "api/base/clock.h"
#include "api/error.h"
#include "api/settings/options.h"
#include "clients/demo/backend.h"
#include "clients/demo/frame.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define UNIT_ROUNDS 500u /* in 1 % of a request; a whole request takes less than 0.1 ms */
#define MAX_WORKERS 256
#define TICK_NS     4000000ull

struct settings {
    uint64_t threads, requests, depth;
    double seconds, delay;
    bool short_threads, in_step, guide;
};

static struct settings settings = {.threads = 2};
static atomic_bool stopping;
static atomic_ullong requests_done, requests_begun, cpu_ns;

/* Each multiplication depends on the one before, so neither the compiler nor the CPU can shorten
 * the chain. A macro instead of a function, so that no tool shows an inlined frame below the leaf.
 */
#define BURN(seed, factor, units)                                                 \
    for (uint64_t rounds = (uint64_t)(units)*UNIT_ROUNDS; rounds > 0; rounds--) { \
        (seed) = (seed) * (factor) + rounds;                                      \
        __asm__ volatile("" : "+r"(seed));                                        \
    }

OWN_FRAME uint64_t parse_header(uint64_t seed, unsigned units);
OWN_FRAME uint64_t compress_block(uint64_t seed, unsigned units);
OWN_FRAME uint64_t match_rules(uint64_t seed, unsigned units);
OWN_FRAME uint64_t read_request(uint64_t seed);
OWN_FRAME uint64_t write_response(uint64_t seed);
OWN_FRAME uint64_t apply_policy(uint64_t seed);
OWN_FRAME uint64_t handle_request(uint64_t seed);
OWN_FRAME uint64_t descend(uint64_t seed, uint64_t depth);
OWN_FRAME void serve(void);

uint64_t parse_header(uint64_t seed, unsigned units) {
    BURN(seed, 6364136223846793005ull, units);
    return seed;
}

uint64_t compress_block(uint64_t seed, unsigned units) {
    BURN(seed, 2862933555777941757ull, units);
    return seed;
}

uint64_t match_rules(uint64_t seed, unsigned units) {
    BURN(seed, 3202034522624059733ull, units);
    return seed;
}

uint64_t read_request(uint64_t seed) {
    seed = parse_header(seed, 10);
    KEEP_FRAME();
    return seed;
}

uint64_t write_response(uint64_t seed) {
    seed = compress_block(seed, 20);
    KEEP_FRAME();
    return seed;
}

uint64_t apply_policy(uint64_t seed) {
    seed = match_rules(seed, 70);
    KEEP_FRAME();
    return seed;
}

uint64_t handle_request(uint64_t seed) {
    seed = read_request(seed);
    seed = apply_policy(seed);
    seed = write_response(seed);
    KEEP_FRAME();
    return seed;
}

/* Adds `depth` frames to the stack, to measure what walking them costs. */
uint64_t descend(uint64_t seed, uint64_t depth) {
    seed = depth > 0 ? descend(seed, depth - 1) : handle_request(seed);
    KEEP_FRAME();
    return seed;
}

static void sleep_to_tick(void) {
    uint64_t next = ((uint64_t)clock_ns(CLOCK_MONOTONIC) / TICK_NS + 1) * TICK_NS + 200000;
    struct timespec until = {(time_t)(next / 1000000000ull), (long)(next % 1000000000ull)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* False once the demo stops or the requested number of requests has begun. */
static bool take_request(void) {
    unsigned long long number = atomic_fetch_add(&requests_begun, 1);
    return !atomic_load(&stopping) && (settings.requests == 0 || number < settings.requests);
}

void serve(void) {
    struct backend backend = {.next = 0};
    uint64_t seed = 1;
    while (take_request()) {
        if (settings.in_step)
            sleep_to_tick();
        for (int i = settings.in_step || settings.guide ? 15 : 1; i > 0; i--)
            seed = descend(seed, settings.depth);
        if (settings.guide)
            backend_serve(&backend);
        atomic_fetch_add(&requests_done, 1);
    }
    backend_finish(&backend);
    KEEP_FRAME();
}

static void name_thread(const char *base, int number) {
    char name[16];
    snprintf(name, sizeof name, "%s-%d", base, number);
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

static void *on_worker(void *number) {
    name_thread("http", (int)(intptr_t)number);
    serve();
    atomic_fetch_add(&cpu_ns, (uint64_t)clock_ns(CLOCK_THREAD_CPUTIME_ID));
    return NULL;
}

static void *on_short_request(void *number) {
    name_thread("request", (int)(intptr_t)number);
    uint64_t seed = 1;
    for (int i = 0; i < 10; i++)
        seed = handle_request(seed);
    atomic_fetch_add(&requests_done, 1);
    atomic_fetch_add(&cpu_ns, (uint64_t)clock_ns(CLOCK_THREAD_CPUTIME_ID));
    return NULL;
}

static void *on_short_worker(void *number) {
    name_thread("spawner", (int)(intptr_t)number);
    pthread_t request;
    while (take_request())
        if (pthread_create(&request, NULL, on_short_request, number) == 0)
            pthread_join(request, NULL);
    return NULL;
}

static void *on_housekeeping(void *unused) {
    prctl(PR_SET_NAME, "housekeeping", 0, 0, 0);
    while (!atomic_load(&stopping))
        usleep(50000);
    return NULL;
}

/* Returns on SIGINT or SIGTERM, after --seconds, or after --requests. */
static void wait_for_end(const sigset_t *signals) {
    struct timespec step = {0, 50000000};
    int64_t start = clock_ns(CLOCK_MONOTONIC);
    while (sigtimedwait(signals, NULL, &step) < 0) {
        double elapsed = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9;
        if (settings.seconds > 0 && elapsed >= settings.seconds)
            break;
        if (settings.requests && atomic_load(&requests_done) >= settings.requests)
            break;
    }
    atomic_store(&stopping, true);
}

static int run(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    printf("demo: pid %d burns parse_header 10 %%, compress_block 20 %%, match_rules 70 %% "
           "on %d threads\n",
           (int)getpid(), (int)settings.threads);
    fflush(stdout);

    usleep((useconds_t)(settings.delay * 1e6));

    pthread_t workers[MAX_WORKERS], housekeeping;
    size_t started = 0;
    bool has_housekeeping = pthread_create(&housekeeping, NULL, on_housekeeping, NULL) == 0;
    while (started < settings.threads) {
        void *number = (void *)(intptr_t)(started + 1);
        void *(*body)(void *) = settings.short_threads ? on_short_worker : on_worker;
        if (pthread_create(&workers[started], NULL, body, number) != 0)
            break;
        started++;
    }
    wait_for_end(&signals);
    for (size_t i = 0; i < started; i++)
        pthread_join(workers[i], NULL);
    if (has_housekeeping)
        pthread_join(housekeeping, NULL);
    printf("demo: %llu requests, cpu_ns %llu, process_cpu_ns %llu\n", atomic_load(&requests_done),
           atomic_load(&cpu_ns), (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    return started == settings.threads ? 0 : 1;
}

int main(int argc, char **argv) {
    static const struct sonde_option table[] = {
        {"threads", 't', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, threads), 1,
         MAX_WORKERS, "number of worker threads (default 2)"},
        {"seconds", 's', "S", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, seconds), 0,
         86400, "exit after this many seconds (default 0: run until a signal)"},
        {"requests", 'n', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, requests), 0,
         1e15, "exit after this many requests (default 0: no limit)"},
        {"delay", 0, "S", NULL, SONDE_OPTION_DECIMAL, offsetof(struct settings, delay), 0, 3600,
         "seconds to sleep before the work begins (default 0)"},
        {"depth", 0, "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct settings, depth), 0, 1000,
         "additional frames below each request (default 0)"},
        {"short", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, short_threads), 0, 0,
         "run each request in a thread of its own that lives about 1 ms"},
        {"guide", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, guide), 0, 0,
         "also wait for a lock and a database, and hold memory"},
        {"tick", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, in_step), 0, 0,
         "begin requests in step with a 4 ms tick"},
    };
    static const struct sonde_options options = {
        .usage = "demo [--threads N] [--seconds S] [--requests N] [--delay S] [--depth N] "
                 "[--short] [--tick] [--guide]",
        .about = "Burns CPU in known shares: parse_header 10, compress_block 20, match_rules 70 %.",
        .table = table,
        .count = sizeof table / sizeof table[0],
    };
    struct sonde_diag diag = {0};
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    if (err == SONDE_CANCELLED)
        return 0;
    if (err || argc > 1) {
        fprintf(stderr, "demo: %s\n",
                err ? sonde_diag_text(&diag, err) : "unexpected argument; see --help");
        return 2;
    }
    return run();
}
