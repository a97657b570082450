/* SPDX-License-Identifier: Apache-2.0
 *
 * A completion queue and the thread that takes tags from it and runs their handlers. */
#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "clients/c/client_state.h"

#include <grpc/support/log.h>
#include <signal.h>
#include <stdlib.h>

struct client_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    client_post *post;
    void *post_context;
};

/* gRPC's own log is dropped: callers get each error as a status. */
static void on_core_log(gpr_log_func_args *args) {
    (void)args;
}

static void *run(void *context) {
    struct client_loop *loop = context;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct client_tag *tag = event.tag;
        core_tag_came(tag);
        tag->run(tag, event.success != 0);
    }
}

/* Signals are blocked meanwhile, so that gRPC's threads and ours inherit the mask. */
static int start(struct client_loop *loop) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    core_skip_lock_checks();
    grpc_init();
    gpr_set_log_function(on_core_log);
    loop->queue = grpc_completion_queue_create_for_next(NULL);
    int error = pthread_create(&loop->thread, NULL, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

sonde_err client_loop_create(client_post *post, void *post_context, struct client_loop **created,
                             struct sonde_diag *diag) {
    struct client_loop *loop = calloc(1, sizeof *loop);
    *created = NULL;
    if (!loop)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the client");
    loop->post = post;
    loop->post_context = post_context;
    int error = start(loop);
    if (!error) {
        *created = loop;
        return SONDE_OK;
    }
    grpc_completion_queue_shutdown(loop->queue);
    run(loop);
    grpc_completion_queue_destroy(loop->queue);
    grpc_shutdown();
    free(loop);
    return sonde_fail_os(diag, error, "the client's thread cannot be started");
}

void client_loop_destroy(struct client_loop *loop) {
    if (!loop)
        return;
    grpc_completion_queue_shutdown(loop->queue);
    pthread_join(loop->thread, NULL);
    grpc_completion_queue_destroy(loop->queue);
    grpc_shutdown();
    free(loop);
}

grpc_completion_queue *client_loop_queue(struct client_loop *loop) {
    return loop->queue;
}

bool client_loop_posts(const struct client_loop *loop) {
    return loop->post != NULL;
}

void client_loop_hand_over(struct client_loop *loop, struct client_event *event) {
    if (loop->post)
        loop->post(loop->post_context, event);
    else
        client_event_run(event);
}
