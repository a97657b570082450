/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/sampler_control.h"

#include "service/guest/heap/jemalloc_hooks.h"
#include "service/guest/heap/sampler.h"
#include "service/guest/signal/handler_state.h"

#include <errno.h>
#include <time.h>

#define LOOK_NS 100000000ll /* between two checks for new libraries and for quiescence */
#define TRIES   1000        /* of a millisecond each: how long to wait for quiescence */

static struct sampler_rate rates[SAMPLER_USES];
static bool is_patched, is_open, is_patch_due;
static uint32_t table_number;
static int64_t look_ns;

bool sampler_control_is_possible(enum sampler_use use) {
    return got_patch_find()->refusal == GOT_PATCH_POSSIBLE ||
           (use == SAMPLER_USE_ALLOCS && jemalloc_hooks_are_possible());
}

bool sampler_control_is_wanted(enum sampler_use use) {
    return rates[use].mean != 0 || rates[use].probability > 0;
}

uint64_t sampler_control_heap_mean(void) {
    return rates[SAMPLER_USE_HEAP].mean;
}

static bool is_any_wanted(void) {
    return sampler_control_is_wanted(SAMPLER_USE_HEAP) ||
           sampler_control_is_wanted(SAMPLER_USE_ALLOCS);
}

bool sampler_control_is_pending(void) {
    return is_any_wanted() && !is_open;
}

/* ---- Starting ---- */

static struct sampler_options combined_options(void) {
    struct sampler_options options = {.live = sampler_control_is_wanted(SAMPLER_USE_HEAP)};
    for (int i = 0; i < SAMPLER_USES; i++) {
        double mean = (double)rates[i].mean, probability = rates[i].probability;
        if (rates[i].mean == 1) {
            mean = 0;
            probability = 1;
        }
        if (mean > 0 && (options.mean == 0 || mean < options.mean))
            options.mean = mean;
        if (probability > options.probability)
            options.probability = probability;
    }
    return options;
}

int sampler_control_start(void) {
    struct sampler_options options = combined_options();
    if (!is_any_wanted())
        return 0;
    int error = sampler_enable(&options);
    is_open = error == 0;
    return error;
}

static void patch(bool install) {
    is_patch_due = !got_patch_apply(install);
    look_ns = handler_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
}

/* Waits for threads that still use the table of an earlier use. */
static bool wait_for_quiescence(void) {
    for (int i = 0; i < TRIES && !sampler_is_quiescent(); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return sampler_is_quiescent();
}

/* jemalloc's hooks slow down every call, so they are installed only while a window is open. */
static int switch_hooks(void) {
    bool wants = sampler_control_is_wanted(SAMPLER_USE_ALLOCS) && sampler_control_table() != 0;
    if (wants == jemalloc_hooks_are_on() || (wants && !jemalloc_hooks_are_possible()))
        return 0;
    return jemalloc_hooks_switch(wants);
}

/* Patches the imports of a malloc outside of the program. */
static int patch_imports(void) {
    if (!sampler_control_is_possible(SAMPLER_USE_HEAP))
        return 0;
    patch(true);
    is_patched = got_patch_find()->words > 0 || is_patch_due;
    if (is_patched || jemalloc_hooks_are_possible())
        return 0;
    sample_table_close(); /* mprotect failed for every word */
    return got_patch_find()->os_error ? got_patch_find()->os_error : ENOTSUP;
}

static int prepare(enum sampler_use use) {
    if (!sampler_control_is_possible(use))
        return ENOTSUP;
    if (sampler_control_table() && !wait_for_quiescence())
        return EBUSY;
    sample_table_close();
    int error = sample_table_open();
    if (error)
        return error;
    table_number++;
    return patch_imports();
}

/* ---- Stopping ---- */

static void free_unused_table(void) {
    if (!is_any_wanted() && sampler_control_table() && sampler_is_quiescent())
        sample_table_close();
}

static void switch_off(void) {
    sampler_disable();
    is_open = false;
    (void)switch_hooks();
    if (is_patched)
        patch(false);
    is_patched = false;
    free_unused_table();
}

int sampler_control_set_rate(enum sampler_use use, const struct sampler_rate *rate) {
    struct sampler_rate before = rates[use];
    bool was_wanted = is_any_wanted(), was_live = sampler_control_is_wanted(SAMPLER_USE_HEAP);
    rates[use] = *rate;
    int error = 0;
    if (!is_any_wanted() && was_wanted)
        switch_off();
    else if (is_any_wanted() && !was_wanted)
        error = prepare(use);
    else if (is_open)
        error = sampler_control_start();
    if (!error)
        error = switch_hooks();
    if (error) {
        rates[use] = before;
        if (!is_any_wanted())
            switch_off();
    }
    if (is_open && was_live && !sampler_control_is_wanted(SAMPLER_USE_HEAP))
        sample_table_forget_live();
    return error;
}

void sampler_control_forget_live(void) {
    sample_table_forget_live();
}

void sampler_control_stop(void) {
    rates[SAMPLER_USE_HEAP] = rates[SAMPLER_USE_ALLOCS] = (struct sampler_rate){0};
    switch_off();
}

/* ---- While it runs ---- */

uint32_t sampler_control_table(void) {
    return sample_table_is_open() ? table_number : 0;
}

int sampler_control_table_fd(void) {
    return sample_table_fd();
}

int sampler_control_tick(int64_t now_ns) {
    (void)switch_hooks(); /* in the child of a fork, those of the parent are still installed */
    if (!is_patched && !is_patch_due && !sampler_control_table())
        return -1;
    if (now_ns < look_ns)
        return (int)((look_ns - now_ns) / 1000000) + 1;
    look_ns = now_ns + LOOK_NS;
    if (is_patch_due || (is_patched && got_patch_is_stale()))
        patch(is_patched);
    free_unused_table();
    return (int)(LOOK_NS / 1000000);
}

/* The child's GOT still points to the wrappers. They pass calls through, because MADV_WIPEONFORK
 * has zeroed the sampler's page. */
void sampler_control_after_fork(void) {
    rates[SAMPLER_USE_HEAP] = rates[SAMPLER_USE_ALLOCS] = (struct sampler_rate){0};
    is_patched = is_open = is_patch_due = false;
    sampler_after_fork();
    sample_table_after_fork();
}
