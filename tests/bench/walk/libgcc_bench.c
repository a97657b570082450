/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures libgcc's _Unwind_Backtrace and glibc's backtrace, in a program of their own, because
 * libunwind, which walk_bench links, replaces these functions. walk_bench reads the output. */
#include "tests/bench/walk/stacks.h"

#include <execinfo.h>
#include <stdio.h>
#include <unwind.h>

static volatile uintptr_t sink;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *count) {
    sink = _Unwind_GetIP(context);
    ++*(unsigned *)count;
    return _URC_NO_REASON;
}

static void walk_by_libgcc(unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        unsigned count = 0;
        _Unwind_Backtrace(take_frame, &count);
    }
}

static void walk_by_glibc(unsigned times) {
    void *pcs[128];
    for (unsigned i = 0; i < times; i++)
        backtrace(pcs, 128);
}

static const struct stacks_method methods[] = {
    {"libgcc _Unwind_Backtrace", walk_by_libgcc, 100},
    {"glibc backtrace", walk_by_glibc, 100},
};

static void measure(void *depth) {
    struct stacks_times times[2];
    stacks_measure(methods, 2, times);
    for (int i = 0; i < 2; i++)
        printf("%u %f %f %s\n", *(const unsigned *)depth, times[i].median, times[i].best,
               methods[i].name);
}

int main(void) {
    for (int i = 0; i < STACKS_SIZES; i++) {
        unsigned depth = stacks_depths[i];
        stacks_enter(depth, 7, measure, &depth);
    }
    return 0;
}
