/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of tools. A new tool is a row here, and a file like tool_threads.c. */
#include "gateway/mcp/tool.h"

#include <string.h>

static const struct mcp_tool *const table[] = {
    &mcp_targets, &mcp_record,  &mcp_captures, &mcp_top,  &mcp_calls, &mcp_annotate,
    &mcp_diff,    &mcp_history, &mcp_threads,  &mcp_heap, &mcp_why,
};

#define COUNT (sizeof table / sizeof table[0])

const struct mcp_tool *const *mcp_tools(size_t *count) {
    *count = COUNT;
    return table;
}

const struct mcp_tool *mcp_tool_find(const char *name) {
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}
