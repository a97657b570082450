/* SPDX-License-Identifier: Apache-2.0
 *
 * The goals of the watcher, over simulated histories, and what it costs over a SQLite store:
 *
 *     bazel run -c opt //tests/bench/watch:watch_bench -- [--quick] [--seed N]
 *
 * Statistics: a change of 10 % in a function of 3 % on 20 hosts at 19 Hz, found within an hour; and
 * service-days without a change. Cost: 1,000 services with 2,000 functions, one stack each. CPU
 * time is that of the whole process while it looks, per slot of 5 minutes. */
#include "service/store/sqlite/sqlite.h"
#include "service/watch/watcher.h"
#include "tests/unit/store/watch/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAY_SLOTS (86400 / LEVEL_SLOT_S)
#define FUNCTIONS 2000
#define BEGIN     1699999200 /* the begin of an hour */

struct plan {
    uint64_t seed;
    int trials, days, services, slots;
};

static void expect(sonde_err err, const struct sonde_diag *diag) {
    if (!err)
        return;
    fprintf(stderr, "watch_bench: %s\n", sonde_diag_text(diag, err));
    exit(1);
}

/* ---- Statistics ---- */

static struct fleet fleet;
static double factors[FLEET_FUNCTIONS];

static void begin(size_t hosts, double unrest, uint64_t seed) {
    fleet_init(&fleet, hosts, seed);
    fleet.unrest = unrest;
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        factors[i] = 1;
}

static size_t look(struct level_result *result) {
    const struct level_input input = fleet_input(&fleet);
    fleet_slot(&fleet, factors);
    expect(level_find(&input, result), NULL);
    return result->count;
}

static size_t function_of(double share) {
    size_t best = 0;
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        if (fabs(fleet.costs[i] - share) < fabs(fleet.costs[best] - share))
            best = i;
    return best;
}

/* The change is in the middle of a slot, and 11 whole ones follow within the hour. */
static void measure_found(const struct plan *plan, double unrest) {
    int found = 0, named = 0;
    for (int trial = 0; trial < plan->trials; trial++) {
        struct level_result result = {.count = 0};
        begin(20, unrest, plan->seed + (uint64_t)trial);
        size_t function = function_of(0.03);
        for (size_t i = 0; i < LEVEL_SLOTS + DAY_SLOTS / 8; i++)
            fleet_slot(&fleet, factors);
        for (int slot = 0; slot < 12 && result.count == 0; slot++) {
            factors[function] = slot ? 1.1 : 1.05;
            look(&result);
        }
        found += result.count > 0;
        named += result.count == 1 && result.changes[0].function == function;
    }
    printf("found within an hour, function varies by %2.0f %% per host and slot  %5.1f %%  named "
           "alone %5.1f %%  (goal 95 %%)\n",
           100 * unrest, 100.0 * found / plan->trials, 100.0 * named / plan->trials);
}

static void measure_false(const struct plan *plan, size_t hosts, double unrest) {
    struct level_result result;
    int count = 0, quiet = 0;
    begin(hosts, unrest, plan->seed);
    for (int slot = 0; slot < plan->days * DAY_SLOTS; slot++) {
        if (look(&result) == 0 || quiet-- > 0)
            continue;
        count++;
        quiet = LEVEL_SLOTS;
    }
    printf("false findings, %2zu hosts, %2.0f %%  %d in %d service-days  (goal 1 in 100)\n", hosts,
           100 * unrest, count, plan->days);
}

/* ---- Cost ---- */

static void put_names(struct store *store, const char *service, uint64_t first) {
    static struct store_line lines[FUNCTIONS];
    static struct store_frame frames[FUNCTIONS];
    static struct store_stack stacks[FUNCTIONS];
    static uint64_t ids[FUNCTIONS];
    static char names[FUNCTIONS][32];
    struct store_put_result result;
    struct sonde_diag diag = {0};
    for (size_t i = 0; i < FUNCTIONS; i++) {
        snprintf(names[i], sizeof names[i], "function_%llu", (unsigned long long)(first + i));
        ids[i] = (first + i + 1) * 0x9e3779b97f4a7c15u;
        lines[i] = (struct store_line){names[i], "a.c", 1};
        frames[i] = (struct store_frame){.id = ids[i],
                                         .build_id = "ab",
                                         .module = "/usr/bin/server",
                                         .address = first + i,
                                         .version = 1,
                                         .lines = &lines[i],
                                         .line_count = 1};
        stacks[i] = (struct store_stack){service, ids[i], &ids[i], 1};
    }
    const struct store_batch batch = {
        .stacks = stacks, .stack_count = FUNCTIONS, .frames = frames, .frame_count = FUNCTIONS};
    expect(store_put(store, &batch, &result, &diag), &diag);
}

/* Shares fall like 1 / rank. */
static void put_window(struct store *store, const char *service, uint64_t first, int slot) {
    static const char *const threads[] = {""};
    static uint64_t ids[FUNCTIONS];
    static uint8_t thread[FUNCTIONS];
    static int64_t values[FUNCTIONS];
    struct store_put_result result;
    struct sonde_diag diag = {0};
    uint64_t state = first + (uint64_t)slot;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (first + i + 1) * 0x9e3779b97f4a7c15u;
        values[i] = (int64_t)(1e11 / (double)(i + 10) * (1 + (double)(state >> 40) / (1 << 26)));
    }
    const struct store_window window = {.source = first + 1,
                                        .seq = (uint64_t)slot + 1,
                                        .epoch = 1,
                                        .event = "on-cpu",
                                        .service = service,
                                        .host = "web-1",
                                        .instance = "00000000000000000000000000000001",
                                        .pid = 1,
                                        .begin_unix_s = BEGIN + slot * LEVEL_SLOT_S,
                                        .length_s = LEVEL_SLOT_S,
                                        .period_ns = 52631579,
                                        .weight = 1,
                                        .clock = "",
                                        .samples = 10000,
                                        .threads = threads,
                                        .thread_count = 1,
                                        .stack = ids,
                                        .thread = thread,
                                        .value = values,
                                        .row_count = FUNCTIONS};
    const struct store_batch batch = {.windows = &window, .window_count = 1};
    expect(store_put(store, &batch, &result, &diag), &diag);
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double resident_mib(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void on_log(const char *line) {
    fprintf(stderr, "watch_bench: %s\n", line);
}

/* The last slots are looked at one by one, as a watcher does that keeps up. The first one of them
 * also reads the names. */
static void measure_cost(const struct plan *plan, struct store *store) {
    struct sonde_diag diag = {0};
    struct watcher *watcher =
        watcher_create(&(struct watcher_options){.store = store, .log = on_log});
    double before_mib = resident_mib(), worst = 0, sum = 0;
    expect(watcher ? SONDE_OK : SONDE_OUT_OF_MEMORY, NULL);
    for (int slot = 0; slot < plan->slots; slot++) {
        for (int service = 0; service < plan->services; service++) {
            char name[32];
            snprintf(name, sizeof name, "service-%d", service);
            if (slot == 0)
                put_names(store, name, (uint64_t)service * FUNCTIONS);
            put_window(store, name, (uint64_t)service * FUNCTIONS, slot);
        }
        double cpu = cpu_seconds();
        expect(watcher_look(watcher, BEGIN + (slot + 1) * LEVEL_SLOT_S + WATCHER_LATE_S, &diag),
               &diag);
        cpu = cpu_seconds() - cpu;
        printf("slot %d  %6.2f s of CPU\n", slot + 1, cpu);
        worst = slot && cpu > worst ? cpu : worst;
        sum += slot ? cpu : 0;
    }
    struct watcher_state state;
    watcher_state(watcher, &state);
    printf("%u services, %llu functions with a share: %.2f %% of a core, worst slot %.2f %%  (goal "
           "5 %%)\n",
           state.services, (unsigned long long)state.functions,
           100 * sum / (plan->slots - 1) / LEVEL_SLOT_S, 100 * worst / LEVEL_SLOT_S);
    printf("resident memory with the store's %.0f MiB, before %.0f MiB  (goal: 300 MiB more)\n",
           resident_mib(), before_mib);
    watcher_destroy(watcher);
}

static void remove_files(const char *directory) {
    static const char *const names[] = {"history.db", "history.db-wal", "history.db-shm",
                                        "history.lock"};
    char path[300];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

int main(int argc, char **argv) {
    struct plan plan = {.seed = 1, .trials = 1000, .days = 1000, .services = 1000, .slots = 6};
    char directory[] = "/tmp/watch_bench.XXXXXX";
    struct sonde_diag diag = {0};
    struct store *store;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            plan = (struct plan){plan.seed, 20, 5, 20, 3};
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            plan.seed = strtoull(argv[++i], NULL, 10);
    }
    printf("seed %llu\n", (unsigned long long)plan.seed);
    measure_found(&plan, 0.05);
    measure_found(&plan, 0.1);
    measure_found(&plan, 0.14);
    measure_false(&plan, 20, 0.1);
    measure_false(&plan, 1, 0.05);
    measure_false(&plan, 3, 0.5);
    expect(mkdtemp(directory) ? SONDE_OK : SONDE_IO, NULL);
    expect(sqlite_store_open(directory, NULL, &store, &diag), &diag);
    measure_cost(&plan, store);
    store_close(store);
    remove_files(directory);
    return 0;
}
