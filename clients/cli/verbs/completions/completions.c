/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde completions SHELL`: prints a completion script. The installation puts all three scripts
 * under share/. A script passes the words of the line to `sonde completions --words` and offers
 * what that prints (complete.h), so that there is one list of what may follow. */
#include "clients/cli/verbs/completions/complete.h"
#include "clients/cli/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

struct settings {
    bool words;
};

/* bash splits words at ':' and '=', too, and inserts only what follows the last of them. compgen -W
 * would execute what process names contain. */
static const char bash[] =
    "_sonde() {\n"
    "    local line word head words\n"
    "    read -ra words <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
    "    [[ ${COMP_LINE:0:COMP_POINT} == *[[:blank:]] ]] && words+=(\"\")\n"
    "    word=${words[-1]}\n"
    "    head=${word%\"${word##*[:=]}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        @files) compopt -o filenames 2>/dev/null; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < "
    "<(compgen -f "
    "-- \"$word\") ;;\n"
    "        @commands) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- \"$word\") ;;\n"
    "        \"$word\"*) line=${line%%$'\\t'*}; COMPREPLY+=(\"${line#\"$head\"}\") ;;\n"
    "        esac\n"
    "    done < <(\"${words[0]/#\\~/$HOME}\" completions --words -- \"${words[@]:1}\" "
    "2>/dev/null)\n"
    "}\n"
    "complete -F _sonde sonde\n";

static const char zsh[] =
    "#compdef sonde\n"
    "_sonde() {\n"
    "    local line\n"
    "    local -a plain described\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        @files) _files ;;\n"
    "        @commands) _command_names -e ;;\n"
    "        *$'\\t'*) described+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        *) plain+=(\"$line\") ;;\n"
    "        esac\n"
    "    done < <(\"${words[1]/#\\~/$HOME}\" completions --words -- \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)\n"
    "    (( $#described )) && _describe sonde described\n"
    "    (( $#plain )) && compadd -a plain\n"
    "}\n"
    "_sonde \"$@\"\n";

static const char fish[] =
    "function __sonde_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    for line in ($words[1] completions --words -- $words[2..-1] \"$word\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case @files\n"
    "                __fish_complete_path \"$word\"\n"
    "            case @commands\n"
    "                __fish_complete_command\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c sonde -f -a '(__sonde_complete)'\n";

static int on_completions(int argc, char **argv) {
    static const struct {
        const char *shell, *script;
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct settings settings = {0};
    int status;
    if (!cli_options(&verb_completions, &settings, false, &argc, argv, &status))
        return status;
    if (settings.words) {
        complete_print((const char *const *)argv + 1, (size_t)argc - 1);
        return 0;
    }
    for (size_t i = 0; argc == 2 && i < COUNT_OF(shells); i++)
        if (strcmp(argv[1], shells[i].shell) == 0)
            return fputs(shells[i].script, stdout) < 0;
    return cli_usage(&verb_completions, "shell needed: bash, zsh or fish");
}

static const struct sonde_option table[] = {
    {"words", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, words), 0, 0, NULL},
};

static const struct sonde_options options = {
    .usage = "sonde completions bash|zsh|fish",
    .about = "Prints the completion script for a shell.",
    .examples = "  source <(sonde completions bash)\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_completions = {"completions", "print a completion script for your shell",
                                      on_completions, &options};
