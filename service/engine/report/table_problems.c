/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/table_problems.h"

#include <stdio.h>
#include <string.h>

void table_problems_add(struct table_problems *problems, const struct mapping *mapping) {
    if (!mapping_problem(mapping))
        return;
    if (problems->count == 0)
        problems->first = mapping;
    problems->count++;
}

void table_problems_describe(const struct table_problems *problems, char *text, size_t size) {
    char more[32] = "";
    text[0] = 0;
    if (problems->count == 0)
        return;
    const char *path = mapping_shown_path(problems->first), *slash = strrchr(path, '/');
    if (problems->count > 1)
        snprintf(more, sizeof more, " and %u more file%s", problems->count - 1,
                 problems->count > 2 ? "s" : "");
    snprintf(text, size, "no unwind table of %.60s%s, so callers are missing: %s",
             slash ? slash + 1 : path, more, mapping_problem(problems->first));
}
