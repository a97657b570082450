/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde VERB ...`: looks up the verb and runs it. */
#include "api/text/nearest.h"
#include "clients/cli/verbs/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MAX_VERBS 32

static int print_help(FILE *out) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    fputs("usage: sonde VERB [TARGET] [options], sonde VERB --help, sonde --version\n"
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

static const struct verb *find(const char *name) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static int refuse(const char *word) {
    const char *names[MAX_VERBS];
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count && i < MAX_VERBS; i++)
        names[i] = verbs[i]->name;
    const char *nearest = sonde_nearest(word, names, count < MAX_VERBS ? count : MAX_VERBS);
    if (word[0] == '-')
        fprintf(stderr, "sonde: options follow the verb: sonde VERB %.64s; see `sonde --help`\n",
                word);
    else if (nearest)
        fprintf(stderr, "sonde: unknown verb \"%.64s\"; did you mean `sonde %s`?\n", word, nearest);
    else
        fprintf(stderr, "sonde: unknown verb \"%.64s\"; run `sonde --help` for a list\n", word);
    return 2;
}

/* For `sonde top | head -1`: when the reader of a pipe has gone, writes fail and the verb ends as
 * usual. A handler and not SIG_IGN, which the commands that Sonde starts would inherit. */
static void on_closed_pipe(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    struct sigaction closed_pipe = {.sa_handler = on_closed_pipe, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &closed_pipe, NULL);
    if (argc < 2)
        return print_help(stderr);
    if (argc == 3 && strcmp(argv[1], "help") == 0 && find(argv[2]))
        return find(argv[2])->run(2, (char *[]){argv[2], (char[]){"--help"}, NULL});
    if (is_one_of(argv[1], "--help", "-h", "help"))
        return print_help(stdout);
    if (is_one_of(argv[1], "--version", "-V", "version"))
        return puts("sonde " SONDE_VERSION) < 0;
    const struct verb *verb = find(argv[1]);
    return verb ? verb->run(argc - 1, argv + 1) : refuse(argv[1]);
}
