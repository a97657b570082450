/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's three threads: two share a stack, one of them waits for a lock with a long
 * name, and the other has an odd name; the third could not be walked. */
#include "service/engine/backtraces/backtraces.h"
#include "tests/unit/rpc/fake_engine.h"

#include <stdlib.h>
#include <string.h>

struct backtraces_work {
    struct engine_work work;
    struct engine_target target;
    pid_t tid;
    engine_on_backtraces *on_answer;
    void *context;
};

static void answer(struct engine_work *base) {
    struct backtraces_work *work = (struct backtraces_work *)base;
    static const struct engine_thread_frame frames[] = {
        {"inner", "/src/demo.c", "", 7, 0x1010, SONDE_FRAME_APPLICATION, true},
        {"outer", "/src/demo.c", "demo", 9, 0x1010, SONDE_FRAME_APPLICATION, false},
        {"", "", "demo", 0, 0x2020, SONDE_FRAME_APPLICATION, false},
    };
    static const struct engine_thread_stack stacks[] = {{frames, 3, 2}};
    static char long_name[5000];
    static struct engine_lock_wait wait = {.address = 0x1000,
                                           .kind = SONDE_WAIT_MUTEX,
                                           .name = long_name,
                                           .function = long_name,
                                           .owner_name = ""};
    static const struct engine_thread threads[] = {
        {10, "main", 'S', "poll_wait", 1500000000, 1000000000, 500000000, 1, 0, "", &wait},
        {11, "odd\xff\n)", 'R', "", 20000000, 20000000, 0, 1, 31000, "", NULL},
        {12, "away", 'S', "", 0, 0, 0, 0, 0, "the kernel does not let us look", NULL},
    };
    memset(long_name, 'x', sizeof long_name - 1);
    struct engine_backtraces all = {
        .target_name = work->target.name,
        .pid = work->target.pid,
        .threads = threads,
        .thread_count = 3,
        .stacks = stacks,
        .stack_count = 1,
        .unix_ns = 1700000000123000000,
        .longest_stop_ns = 31000,
        .total_stop_ns = 31000,
        .not_walked = 1,
        .note = "run sonded as root",
    };
    struct sonde_diag diag = {0};
    if (work->tid && work->tid != 10)
        work->on_answer(work->context, sonde_fail(&diag, SONDE_NOT_FOUND, "no such thread"), &diag,
                        NULL);
    else
        work->on_answer(work->context, SONDE_OK, NULL, &all);
    free(work);
}

sonde_err engine_backtraces(struct engine *engine, const struct engine_backtraces_spec *spec,
                            engine_on_backtraces *on_answer, void *context,
                            struct sonde_diag *diag) {
    struct backtraces_work *work = calloc(1, sizeof *work);
    sonde_err err =
        work ? engine_find(engine, &spec->target, &work->target, diag) : SONDE_OUT_OF_MEMORY;
    if (!err) {
        work->work.run = answer;
        work->tid = spec->tid;
        work->on_answer = on_answer;
        work->context = context;
        if (!engine_submit(engine, &work->work))
            err = SONDE_UNAVAILABLE;
    }
    if (err)
        free(work);
    return err;
}
