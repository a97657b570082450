/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde`: one table of verbs. --help, the completions and the man page's test read it too. */
#include "clients/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct verb *const verbs[] = {
    &verb_run,     &verb_record, &verb_top,         &verb_draw,     &verb_diff,
    &verb_live,    &verb_heap,   &verb_threads,     &verb_captures, &verb_symbol,
    &verb_targets, &verb_doctor, &verb_completions,
};

const struct verb *const *cli_verbs(size_t *count) {
    *count = COUNT_OF(verbs);
    return verbs;
}

static int print_help(FILE *out) {
    fputs(
        "usage: sonde VERB [TARGET] [options]\n\n"
        "Looks inside a running native server: where does its CPU time go, who holds its memory?\n"
        "TARGET is a process by name or pid; the only one attached need not be named.\n\n",
        out);
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        fprintf(out, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n`sonde VERB --help` tells the rest; `sonde --version` the version.\n"
          "Exit codes: 0 done, 1 failed, 2 usage, 3 service unreachable, 4 refused;\n"
          "`run` exits as the command does (125 to 127: Sonde could not run it).\n\n"
          "examples:\n"
          "  sonde run -- redis-server           a server with Sonde inside, and its page\n"
          "  sonde record -d 10 -o flame.svg     10 seconds as a flame graph\n"
          "  sonde live redis-server             the hottest functions, as they change\n"
          "  sonde doctor                        what does not work here, and what mends it\n",
          out);
    return out == stdout ? 0 : 2;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return print_help(stderr);
    if (is_one_of(argv[1], "--help", "-h", "help"))
        return print_help(stdout);
    if (is_one_of(argv[1], "--version", "-V", "version"))
        return puts("sonde " SONDE_VERSION) < 0;
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strcmp(verbs[i]->name, argv[1]) == 0)
            return verbs[i]->run(argc - 1, argv + 1);
    fprintf(stderr, "sonde: there is no verb \"%.64s\"; `sonde --help` lists them\n", argv[1]);
    return 2;
}
