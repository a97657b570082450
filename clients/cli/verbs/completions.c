/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde completions SHELL`: writes a completion script from the table of verbs. The installation
 * puts all three scripts under share/. */
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static void print_verbs(void) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", verbs[i]->name);
}

static void print_flags(const struct verb *verb) {
    for (size_t i = 0; i < verb->options->count; i++)
        printf("--%s ", verb->options->table[i].name);
    printf("--help --version");
}

static void print_bash(void) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    printf("_sonde() {\n"
           "    local word=\"${COMP_WORDS[COMP_CWORD]}\" flags=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"");
    print_verbs();
    printf(" --help --version\" -- \"$word\"))\n        return\n    fi\n"
           "    case \"${COMP_WORDS[1]}\" in\n");
    for (size_t i = 0; i < count; i++) {
        printf("    %s) flags=\"", verbs[i]->name);
        print_flags(verbs[i]);
        printf("\" ;;\n");
    }
    printf("    esac\n"
           "    case \"$word\" in\n"
           "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
           "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
           "    esac\n}\n"
           "complete -o filenames -F _sonde sonde\n");
}

/* Prints text as a single-quoted word of a shell script. A quote in the text closes and reopens the
 * quotes. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++)
        *text == '\'' ? fputs("'\\''", stdout) : putchar(*text);
    putchar('\'');
}

static void print_zsh(void) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    printf("#compdef sonde\n_sonde() {\n    local -a verbs\n    verbs=(\n");
    for (size_t i = 0; i < count; i++) {
        printf("        %s:", verbs[i]->name);
        print_quoted(verbs[i]->summary);
        putchar('\n');
    }
    printf("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n"
           "        return\n    fi\n    case ${words[2]} in\n");
    for (size_t i = 0; i < count; i++) {
        printf("    %s) compadd -- ", verbs[i]->name);
        print_flags(verbs[i]);
        printf(" ;;\n");
    }
    printf("    esac\n    _files\n}\n_sonde \"$@\"\n");
}

static void print_fish(void) {
    size_t count;
    const struct verb *const *verbs = verbs_table(&count);
    for (size_t i = 0; i < count; i++) {
        printf("complete -c sonde -n __fish_use_subcommand -f -a %s -d ", verbs[i]->name);
        print_quoted(verbs[i]->summary);
        putchar('\n');
        for (size_t j = 0; j < verbs[i]->options->count; j++) {
            const struct sonde_option *option = &verbs[i]->options->table[j];
            printf("complete -c sonde -n '__fish_seen_subcommand_from %s' -l %s%s -d ",
                   verbs[i]->name, option->name, option->argument ? " -r" : "");
            print_quoted(option->help);
            putchar('\n');
        }
    }
}

static int on_completions(int argc, char **argv) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    int status, unused = 0;
    if (!cli_options(&verb_completions, &unused, false, &argc, argv, &status))
        return status;
    for (size_t i = 0; argc == 2 && i < COUNT_OF(shells); i++)
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].print();
            return 0;
        }
    return cli_usage(&verb_completions, "shell needed: bash, zsh or fish");
}

static const struct sonde_options options = {
    .usage = "sonde completions bash|zsh|fish",
    .about = "Prints the completion script for a shell.",
    .examples = "  source <(sonde completions bash)\n",
};

const struct verb verb_completions = {"completions", "print a completion script for your shell",
                                      on_completions, &options};
