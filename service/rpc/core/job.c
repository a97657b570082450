/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/server_state.h"

static void on_done(struct loop_message *message) {
    struct rpc_job *job = container_of(message, struct rpc_job, done);
    job->on_done(job);
}

static void run(struct engine_work *work) {
    struct rpc_job *job = container_of(work, struct rpc_job, work);
    struct loop *loop = rpc_call_server(job->call)->loop;
    job->run(job);
    job->done.run = on_done;
    loop_post(loop, &job->done);
}

struct engine_work *rpc_job_work(struct rpc_job *job) {
    job->work.run = run;
    return &job->work;
}

/* If the workers' queues are full, the loop does the work itself: slower, but nothing is lost. */
void rpc_job_start(struct rpc_job *job) {
    if (!engine_submit(rpc_call_server(job->call)->engine, rpc_job_work(job)))
        run(&job->work);
}
