/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde VERB ...`: looks up the verb and runs it. */
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static int print_help(FILE *out) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    fputs("usage: sonde VERB [TARGET] [options]\n"
          "\n"
          "Shows where a running native server spends CPU time, where it waits and what holds its "
          "memory.\n"
          "TARGET is the name or pid of any process; only `heap` needs one that `sonde run` "
          "started.\n"
          "\n",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n"
          "`sonde VERB --help` lists the options of a verb; `sonde --version` prints the version.\n"
          "Exit status: 0 success, 1 failure, 2 usage error, 3 service unreachable, 4 refused.\n"
          "`run` and `record --` exit with the status of the command (125 to 127: not started).\n"
          "\n"
          "examples:\n"
          "  sonde record 4711 -o flame.svg      record a process for 10 seconds as a flame graph\n"
          "  sonde live --all                    watch the hottest functions of the whole machine\n"
          "  sonde run -- redis-server           start a server under Sonde and print its page's "
          "URL\n"
          "  sonde doctor                        check this machine and suggest fixes\n",
          out);
    return out == stdout ? 0 : 2;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    if (argc < 2)
        return print_help(stderr);
    if (is_one_of(argv[1], "--help", "-h", "help"))
        return print_help(stdout);
    if (is_one_of(argv[1], "--version", "-V", "version"))
        return puts("sonde " SONDE_VERSION) < 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(verbs[i]->name, argv[1]) == 0)
            return verbs[i]->run(argc - 1, argv + 1);
    fprintf(stderr, "sonde: unknown verb \"%.64s\"; run `sonde --help` for a list\n", argv[1]);
    return 2;
}
