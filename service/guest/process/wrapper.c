/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/wrapper.h"

#include "api/wrapper_programs.h"

#include "service/guest/raw.h"

#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#define ALWAYS(name) {name, WRAPPER_ALWAYS},
#define SHELL(name)  {name, WRAPPER_SHELL},

static const struct {
    const char *program;
    enum wrapper kind;
} table[] = {WRAPPER_PROGRAMS(ALWAYS, SHELL)};

enum wrapper wrapper_of(const char *program) {
    program += program[0] == '-'; /* a login shell */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].program, program) == 0)
            return table[i].kind;
    return WRAPPER_NONE;
}

/* Only asks: WNOWAIT leaves the children to the program. */
bool wrapper_has_child(void) {
    return system_call(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG | WNOWAIT, 0) == 0;
}
