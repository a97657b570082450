/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/wrapper.h"

#include "service/guest/raw.h"

#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

static const struct {
    const char *program;
    enum wrapper kind;
} table[] = {
    {"timeout", WRAPPER_ALWAYS}, {"env", WRAPPER_ALWAYS},       {"nice", WRAPPER_ALWAYS},
    {"nohup", WRAPPER_ALWAYS},   {"setsid", WRAPPER_ALWAYS},    {"stdbuf", WRAPPER_ALWAYS},
    {"time", WRAPPER_ALWAYS},    {"chrt", WRAPPER_ALWAYS},      {"ionice", WRAPPER_ALWAYS},
    {"taskset", WRAPPER_ALWAYS}, {"numactl", WRAPPER_ALWAYS},   {"prlimit", WRAPPER_ALWAYS},
    {"setpriv", WRAPPER_ALWAYS}, {"unshare", WRAPPER_ALWAYS},   {"nsenter", WRAPPER_ALWAYS},
    {"tini", WRAPPER_ALWAYS},    {"dumb-init", WRAPPER_ALWAYS}, {"sh", WRAPPER_SHELL},
    {"dash", WRAPPER_SHELL},     {"bash", WRAPPER_SHELL},       {"ash", WRAPPER_SHELL},
    {"ksh", WRAPPER_SHELL},      {"mksh", WRAPPER_SHELL},       {"zsh", WRAPPER_SHELL},
    {"fish", WRAPPER_SHELL},
};

enum wrapper wrapper_of(const char *program) {
    program += program[0] == '-'; /* a login shell */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].program, program) == 0)
            return table[i].kind;
    return WRAPPER_NONE;
}

/* Only asks: WNOWAIT leaves the children to the program. */
bool wrapper_has_child(void) {
    return raw_call(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG | WNOWAIT, 0) == 0;
}
