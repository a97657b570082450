/* SPDX-License-Identifier: Apache-2.0
 *
 * contended MS: after a line on stdin, threads wait for a mutex, a read-write lock on the heap, a
 * condition variable and a semaphore for that time. Then it prints how long each waited, in
 * nanoseconds by its own clock, and by whom the locks were held; it ends with the next line. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

struct shop {
    long opened;
    pthread_mutex_t orders;
};
static struct shop shop = {1, PTHREAD_MUTEX_INITIALIZER};

struct table {
    pthread_rwlock_t lock;
};
static struct table *table;

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static sem_t tokens;
static uint64_t until_ns;

struct person {
    const char *name;
    void (*act)(struct person *person);
    uint64_t waited_ns;
    long tid;
    pthread_t thread;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static void sleep_ms(uint64_t ms) {
    const struct timespec time = {.tv_nsec = (long)(ms * MS)};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) void hold_orders(struct person *person) {
    pthread_mutex_lock(&shop.orders);
    sleep_ms(20);
    pthread_mutex_unlock(&shop.orders);
    sleep_ms(3);
}

__attribute__((noinline)) void take_order(struct person *person) {
    uint64_t from = now_ns();
    pthread_mutex_lock(&shop.orders);
    person->waited_ns += now_ns() - from;
    pthread_mutex_unlock(&shop.orders);
    sleep_ms(1);
}

__attribute__((noinline)) void write_table(struct person *person) {
    pthread_rwlock_wrlock(&table->lock);
    sleep_ms(15);
    pthread_rwlock_unlock(&table->lock);
    sleep_ms(3);
}

__attribute__((noinline)) void read_table(struct person *person) {
    uint64_t from = now_ns();
    pthread_rwlock_rdlock(&table->lock);
    person->waited_ns += now_ns() - from;
    pthread_rwlock_unlock(&table->lock);
    sleep_ms(1);
}

__attribute__((noinline)) void await_work(struct person *person) {
    uint64_t from = now_ns();
    pthread_mutex_lock(&work_lock);
    pthread_cond_wait(&work, &work_lock);
    pthread_mutex_unlock(&work_lock);
    person->waited_ns += now_ns() - from;
}

__attribute__((noinline)) void await_token(struct person *person) {
    uint64_t from = now_ns();
    while (sem_wait(&tokens))
        continue;
    person->waited_ns += now_ns() - from;
}

static struct person people[] = {
    {.name = "holder", .act = hold_orders}, {.name = "waiter", .act = take_order},
    {.name = "writer", .act = write_table}, {.name = "reader", .act = read_table},
    {.name = "idle", .act = await_work},    {.name = "taker", .act = await_token},
};
#define PEOPLE (sizeof people / sizeof *people)

static void *live(void *argument) {
    struct person *person = argument;
    person->tid = syscall(SYS_gettid);
    pthread_setname_np(pthread_self(), person->name);
    while (now_ns() < until_ns)
        person->act(person);
    return NULL;
}

static void give_work(void) {
    while (now_ns() < until_ns + 20 * MS) {
        sleep_ms(5);
        sem_post(&tokens);
        pthread_mutex_lock(&work_lock);
        pthread_cond_signal(&work);
        pthread_mutex_unlock(&work_lock);
    }
}

int main(int argc, char **argv) {
    char line[16];
    uint64_t ms = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    table = malloc(sizeof *table);
    if (!table || pthread_rwlock_init(&table->lock, NULL) || sem_init(&tokens, 0, 0))
        return 1;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    until_ns = now_ns() + ms * MS;
    for (size_t i = 0; i < PEOPLE; i++)
        if (pthread_create(&people[i].thread, NULL, live, &people[i]))
            return 1;
    give_work();
    for (size_t i = 0; i < PEOPLE; i++)
        pthread_join(people[i].thread, NULL);
    printf("{\"table\": \"%p\"", (void *)table);
    for (size_t i = 0; i < PEOPLE; i++)
        printf(", \"%s\": [%llu, %ld]", people[i].name, (unsigned long long)people[i].waited_ns,
               people[i].tid);
    puts("}");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) == NULL;
}
