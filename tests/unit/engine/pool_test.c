/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/container_of.h"
#include "service/engine/pool.h"
#include "tests/unit/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define ALICE 54321u /* two users other than root and the one of this test */
#define BOB   54322u

/* Work that notes the order in which it ran. */
struct step {
    struct engine_work work;
    struct bench *bench;
    char letter;
};

/* A pool whose work is held back until the gate opens. */
struct bench {
    struct pool *pool;
    pthread_mutex_t gate;
    _Atomic uint32_t inside, place, ran, peak;
    char order[4096];
    struct step steps[4096];
    uint32_t used;
};

static void bench_init(struct bench *bench, uint32_t threads) {
    struct sonde_diag diag = {0};
    memset(bench, 0, sizeof *bench);
    pthread_mutex_init(&bench->gate, NULL);
    CHECK_INT(pool_create("test", threads, 2, &bench->pool, &diag), ==, SONDE_OK);
}

static void run_step(struct engine_work *work) {
    struct step *step = container_of(work, struct step, work);
    step->bench->order[atomic_fetch_add(&step->bench->place, 1)] = step->letter;
    atomic_fetch_add(&step->bench->ran, 1);
}

static void wait_at_gate(struct engine_work *work) {
    struct step *step = container_of(work, struct step, work);
    uint32_t inside = atomic_fetch_add(&step->bench->inside, 1) + 1;
    if (inside > atomic_load(&step->bench->peak))
        atomic_store(&step->bench->peak, inside);
    pthread_mutex_lock(&step->bench->gate);
    pthread_mutex_unlock(&step->bench->gate);
    atomic_fetch_sub(&step->bench->inside, 1);
    run_step(work);
}

static struct engine_work *make(struct bench *bench, char letter, bool at_gate) {
    struct step *step = &bench->steps[bench->used++];
    *step = (struct step){{.run = at_gate ? wait_at_gate : run_step}, bench, letter};
    return &step->work;
}

static void add(struct bench *bench, struct pool_queue *queue, char letter, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        pool_add_to(bench->pool, queue, make(bench, letter, false));
}

/* Occupies the only thread until the gate opens, so that what is added meanwhile waits. */
static void hold(struct bench *bench) {
    pthread_mutex_lock(&bench->gate);
    pool_add(bench->pool, make(bench, '-', true));
    while (atomic_load(&bench->inside) == 0)
        usleep(100);
}

/* Opens the gate and returns the order in which everything ran. */
static const char *release(struct bench *bench) {
    pthread_mutex_unlock(&bench->gate);
    pool_destroy(bench->pool);
    return bench->order;
}

TEST(pool_serves_users_in_turn_however_much_one_of_them_queues) {
    static struct bench bench;
    struct pool_queue flood = {.uid = ALICE}, honest = {.uid = BOB};
    bench_init(&bench, 1);
    hold(&bench);
    add(&bench, &flood, 'f', 1000);
    add(&bench, &honest, 'h', 3);
    CHECK(strncmp(release(&bench), "-fhfhfhf", 8) == 0);
    CHECK_INT(bench.ran, ==, 1004);
}

TEST(pool_serves_a_users_targets_in_turn_and_does_not_favour_the_user_with_many) {
    static struct bench bench;
    struct pool_queue many[3] = {{.uid = ALICE}, {.uid = ALICE}, {.uid = ALICE}};
    struct pool_queue honest = {.uid = BOB};
    bench_init(&bench, 1);
    hold(&bench);
    for (int i = 0; i < 3; i++)
        add(&bench, &many[i], (char)('1' + i), 50);
    add(&bench, &honest, 'h', 4);
    CHECK(strncmp(release(&bench), "-1h2h3h1h", 9) == 0);
}

TEST(pool_does_not_favour_a_user_whose_queue_is_always_new) {
    static struct bench bench;
    struct pool_queue fresh[8], honest = {.uid = BOB};
    bench_init(&bench, 1);
    hold(&bench);
    add(&bench, &honest, 'h', 4);
    for (int i = 0; i < 8; i++) {
        fresh[i] = (struct pool_queue){.uid = ALICE};
        add(&bench, &fresh[i], 'f', 1);
    }
    CHECK_STR(release(&bench), "-hfhfhfhfffff");
}

TEST(pool_runs_work_of_one_target_in_order) {
    static struct bench bench;
    struct pool_queue queue = {.uid = ALICE};
    bench_init(&bench, 1);
    hold(&bench);
    for (char letter = 'a'; letter <= 'z'; letter++)
        add(&bench, &queue, letter, 1);
    CHECK_STR(release(&bench), "-abcdefghijklmnopqrstuvwxyz");
}

TEST(pool_keeps_a_worker_free_of_a_user_whose_work_takes_long) {
    static struct bench bench;
    struct pool_queue slow = {.uid = ALICE}, honest = {.uid = BOB};
    bench_init(&bench, 3);
    pthread_mutex_lock(&bench.gate);
    for (int i = 0; i < 8; i++)
        pool_add_to(bench.pool, &slow, make(&bench, 's', true));
    add(&bench, &honest, 'h', 5);
    while (atomic_load(&bench.ran) < 5) /* hangs if the slow work occupies all workers */
        usleep(100);
    CHECK_STR(bench.order, "hhhhh");
    CHECK_INT(bench.peak, <=, 2);
    release(&bench);
    CHECK_INT(bench.ran, ==, 13);
}

TEST(pool_gives_all_workers_to_sondeds_own_user) {
    static struct bench bench;
    struct pool_queue own = {.uid = geteuid()};
    bench_init(&bench, 3);
    pthread_mutex_lock(&bench.gate);
    for (int i = 0; i < 3; i++)
        pool_add_to(bench.pool, &own, make(&bench, 'o', true));
    while (atomic_load(&bench.inside) < 3)
        usleep(100);
    release(&bench);
}

TEST(pool_submit_refuses_work_beyond_its_limit) {
    static struct bench bench;
    bench_init(&bench, 1);
    hold(&bench);
    CHECK(pool_submit(bench.pool, make(&bench, '1', false)));
    CHECK(pool_submit(bench.pool, make(&bench, '2', false)));
    CHECK(!pool_submit(bench.pool, make(&bench, '3', false)));
    CHECK_STR(release(&bench), "-12");
}
