/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/subject/subject.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    subject_verb *run;
} verbs[] = {
    {"shares", verb_shares},
    {"threads", verb_threads},
    {"kernel", verb_kernel},
    {"leaf", verb_leaf},
    {"labels", verb_labels},
    {"idle", verb_idle},
    {"clone", verb_clone},
    {"in_step", verb_in_step},
    {"deep", verb_deep},
    {"coroutine", verb_coroutine},
    {"sigstack", verb_sigstack},
    {"blocked", verb_blocked},
    {"foreign", verb_foreign},
    {"eintr", verb_eintr},
    {"steady", verb_steady},
    {"small_stacks", verb_small_stacks},
    {"stolen", verb_stolen},
    {"late", verb_late},
    {"forks", verb_forks},
    {"exec", verb_exec},
    {"refused", verb_refused},
    {"drops", verb_drops},
    {"chroot", verb_chroot},
    {"embedded", verb_embedded},
    {"plain", verb_plain},
    {"children", verb_children},
    {"loader", verb_loader},
    {"altstack", verb_altstack},
    {"registered", verb_registered},
    {"short_shares", verb_short_shares},
    {"closer", verb_closer},
    {"steady_crowd", verb_steady_crowd},
    {"waits", verb_waits},
    {"places", verb_places},
    {"small_altstack", verb_small_altstack},
    {"smallest_altstack", verb_smallest_altstack},
    {"filtered", verb_filtered},
    {"filtered_process", verb_filtered_process},
};

__attribute__((noinline)) void subject_work(int64_t ns) {
    SUBJECT_BURN(ns);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, argv[1]) == 0) {
            verbs[i].run(argc > 2 ? atoi(argv[2]) : 0);
            return 0;
        }
    fprintf(stderr, "no such verb\n");
    return 2;
}
