/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/sampler_control.h"

#include "service/guest/heap/sampler.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <time.h>

#define LOOK_NS 100000000ll /* between two looks for new libraries, and for a closed one's end */
#define TRIES   1000        /* of a millisecond each, for threads to leave the sampler */

static struct interposer_wish wishes[INTERPOSER_USES];
static bool is_patched, is_open, is_pass_due;
static uint32_t table_number;
static int64_t look_ns;

bool interposer_is_possible(void) {
    return patch_find()->refusal == PATCH_POSSIBLE;
}

bool interposer_is_wanted(enum interposer_use use) {
    return wishes[use].mean != 0 || wishes[use].probability > 0;
}

uint64_t interposer_mean(void) {
    return wishes[INTERPOSER_HEAP].mean;
}

static bool is_wanted(void) {
    return interposer_is_wanted(INTERPOSER_HEAP) || interposer_is_wanted(INTERPOSER_ALLOCS);
}

bool interposer_is_waiting(void) {
    return is_wanted() && !is_open;
}

/* ---- On ---- */

static struct sampler_demand whole_demand(void) {
    struct sampler_demand demand = {.live = interposer_is_wanted(INTERPOSER_HEAP)};
    for (int i = 0; i < INTERPOSER_USES; i++) {
        double mean = (double)wishes[i].mean, probability = wishes[i].probability;
        if (wishes[i].mean == 1) {
            mean = 0;
            probability = 1;
        }
        if (mean > 0 && (demand.mean == 0 || mean < demand.mean))
            demand.mean = mean;
        if (probability > demand.probability)
            demand.probability = probability;
    }
    return demand;
}

int interposer_begin(void) {
    struct sampler_demand demand = whole_demand();
    if (!is_wanted())
        return 0;
    int error = sampler_open(&demand);
    is_open = error == 0;
    return error;
}

static void pass(bool in_place) {
    is_pass_due = !patch_pass(in_place);
    look_ns = handler_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
}

/* Of an earlier life. */
static bool wait_quiet(void) {
    for (int i = 0; i < TRIES && !sampler_is_quiet(); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return sampler_is_quiet();
}

static int prepare(void) {
    if (!interposer_is_possible())
        return ENOTSUP;
    if (interposer_table() && !wait_quiet())
        return EBUSY;
    samples_close();
    int error = samples_open();
    if (error)
        return error;
    table_number++;
    pass(true);
    is_patched = patch_find()->words > 0 || is_pass_due;
    if (is_patched)
        return 0;
    samples_close(); /* no word could be written: a kernel that forbids it */
    return patch_find()->os_error ? patch_find()->os_error : ENOTSUP;
}

/* ---- Off ---- */

/* When nobody is inside any more. */
static void give_back(void) {
    if (!is_open && !is_patched && interposer_table() && sampler_is_quiet())
        samples_close();
}

static void switch_off(void) {
    sampler_close();
    is_open = false;
    if (is_patched)
        pass(false);
    is_patched = false;
    give_back();
}

int interposer_want(enum interposer_use use, const struct interposer_wish *wish) {
    struct interposer_wish before = wishes[use];
    bool was_wanted = is_wanted(), was_live = interposer_is_wanted(INTERPOSER_HEAP);
    wishes[use] = *wish;
    int error = 0;
    if (!is_wanted() && was_wanted)
        switch_off();
    else if (is_wanted() && !was_wanted)
        error = prepare();
    else if (is_open)
        error = interposer_begin();
    if (error)
        wishes[use] = before;
    if (is_open && was_live && !interposer_is_wanted(INTERPOSER_HEAP))
        samples_forget_live();
    return error;
}

void interposer_forget(void) {
    samples_forget_live();
}

void interposer_stop(void) {
    wishes[INTERPOSER_HEAP] = wishes[INTERPOSER_ALLOCS] = (struct interposer_wish){0};
    switch_off();
}

/* ---- Beside it ---- */

uint32_t interposer_table(void) {
    return samples_is_open() ? table_number : 0;
}

int interposer_table_fd(void) {
    return samples_fd();
}

int interposer_tick(int64_t now_ns) {
    if (!is_patched && !is_pass_due && !interposer_table())
        return -1;
    if (now_ns < look_ns)
        return (int)((look_ns - now_ns) / 1000000) + 1;
    look_ns = now_ns + LOOK_NS;
    if (is_pass_due || (is_patched && patch_is_stale()))
        pass(is_patched);
    give_back();
    return (int)(LOOK_NS / 1000000);
}

/* The imports of the child still point to the stand-ins, whose gate the kernel has closed. */
void interposer_after_fork(void) {
    wishes[INTERPOSER_HEAP] = wishes[INTERPOSER_ALLOCS] = (struct interposer_wish){0};
    is_patched = is_open = is_pass_due = false;
    sampler_after_fork();
    samples_after_fork();
}
