/* SPDX-License-Identifier: Apache-2.0
 *
 * Who turns h2o's loop. A request waits for an answer that comes out of another thread, the RPC
 * client's; to carry it over by a pipe would wake the loop's thread, and cost a small request a
 * third of its time. So the loop belongs to whoever holds its lock, and a thread that brings
 * something tries to take it:
 *
 *     loop's thread    poll ── lock ── posts, h2o_evloop_run(0) ── unlock ── poll
 *     post             push ── lock free? ── posts, h2o_evloop_run(0) ── unlock
 *                          └─ taken: its holder finds the post before it sleeps
 *
 * So an idle gateway answers on the client's thread without any wake-up. Under load that thread has
 * its own work: with more than a few requests it leaves its posts to the loop's thread, which is
 * mostly awake and drains them in batches, without a system call.
 *
 * h2o sleeps in epoll_wait inside h2o_evloop_run, where nothing of it may be touched. So it never
 * sleeps: the loop's thread polls h2o's epoll descriptor, unlocked, and runs the loop with no wait
 * afterwards. What h2o wants to hear of reaches that descriptor only in the next run: a loop that
 * has such changes (`_statechanged`) is run again before anybody sleeps. */
#include "gateway/http/http_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FEW_REQUESTS      2
#define ROUNDS_OF_A_GUEST 4   /* of a thread with its own work to return to */
#define LONGEST_WAIT_MS   100 /* while there are connections, whose timeouts h2o counts */

/* h2o keeps what it will use again in lists of each thread. When a thread that posted ends, after
 * the loop has, its few pieces are nobody's: nothing to report. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:h2o_mem_alloc_recycle\n";
}
#endif

/* h2o does not tell its descriptor. Descriptors are given out lowest first, and no other thread
 * exists yet. */
sonde_err http_turn_create(struct http_server *server, struct sonde_diag *diag) {
    struct epoll_event event;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next >= 0)
        close(next);
    server->loop = h2o_evloop_create();
    server->epoll_fd = next;
    pthread_mutex_init(&server->lock, NULL);
    if (epoll_wait(next, &event, 1, 0) != 0)
        return sonde_fail(diag, SONDE_INTERNAL, "this h2o does not wait with epoll");
    return SONDE_OK;
}

static bool has_posts(struct http_server *server) {
    return atomic_load(&server->posted) != NULL;
}

/* In the order they came. */
static void drain(struct http_server *server) {
    struct http_post *newest = atomic_exchange(&server->posted, NULL), *first = NULL;
    while (newest) {
        struct http_post *older = newest->next;
        newest->next = first;
        first = newest;
        newest = older;
    }
    while (first) {
        struct http_post *post = first;
        first = post->next;
        server->options.on_post(server->options.context, post);
    }
}

/* Under the lock. */
static bool has_work(struct http_server *server) {
    return server->loop->_statechanged.head || has_posts(server);
}

static void work(struct http_server *server, int rounds) {
    do {
        drain(server);
        h2o_evloop_run(server->loop, 0);
        if (server->options.on_turn)
            server->options.on_turn(server->options.context);
    } while (has_work(server) && --rounds > 0);
}

static void wake(struct http_server *server) {
    if (!atomic_flag_test_and_set(&server->wake_sent))
        h2o_multithread_send_message(&server->wakes, &server->wake);
}

void http_server_post(struct http_server *server, struct http_post *post) {
    post->next = atomic_load(&server->posted);
    while (!atomic_compare_exchange_weak(&server->posted, &post->next, post))
        ;
}

void http_server_posted(struct http_server *server) {
    if (atomic_load(&server->requests) > FEW_REQUESTS) {
        if (atomic_load(&server->sleeps))
            wake(server);
        return;
    }
    while (has_posts(server) && pthread_mutex_trylock(&server->lock) == 0) {
        work(server, ROUNDS_OF_A_GUEST);
        /* The sleeper would not see what is left, nor the time of a connection that is new. */
        if (has_work(server) || (server->sleeps_long && server->connections))
            wake(server);
        pthread_mutex_unlock(&server->lock);
    }
}

void http_turn(struct http_server *server, int32_t wait_ms) {
    struct pollfd loop = {.fd = server->epoll_fd, .events = POLLIN};
    if (server->connections && (wait_ms < 0 || wait_ms > LONGEST_WAIT_MS))
        wait_ms = LONGEST_WAIT_MS;
    if (!has_work(server)) {
        server->sleeps_long = wait_ms < 0;
        atomic_store(&server->sleeps, true);
        pthread_mutex_unlock(&server->lock);
        if (!has_posts(server)) /* who posts from now on sees that we sleep */
            poll(&loop, 1, wait_ms);
        atomic_store(&server->sleeps, false);
        pthread_mutex_lock(&server->lock);
        server->sleeps_long = false;
    }
    work(server, 1);
}

void http_server_stop(struct http_server *server) {
    atomic_fetch_add(&server->stops, 1);
    wake(server);
}

void http_turn_woken(struct http_server *server) {
    atomic_flag_clear(&server->wake_sent);
}
