/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/arguments.h"

#include "api/json/json.h"

#define MAX_ROWS 16

const struct mcp_argument *mcp_argument_find(const struct mcp_tool *tool, struct sonde_slice name) {
    for (size_t i = 0; i < tool->argument_count; i++)
        if (sonde_slice_equals(name, tool->arguments[i].name))
            return &tool->arguments[i];
    return NULL;
}

static sonde_err refuse_unknown(const struct mcp_tool *tool, struct sonde_slice name,
                                struct sonde_diag *diag) {
    const char *names[MAX_ROWS];
    size_t count = 0;
    for (; count < tool->argument_count && count < MAX_ROWS; count++)
        names[count] = tool->arguments[count].name;
    return query_refuse_unknown("argument", "this tool", name, query_nearest(name, names, count),
                                names, count, diag);
}

static sonde_err check_value(const struct mcp_argument *row, const struct query *arguments,
                             struct sonde_diag *diag) {
    struct sonde_slice value;
    uint64_t number;
    bool flag;
    if (!query_get(arguments, row->name, &value))
        return row->is_required ? sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s is missing: %s",
                                             row->name, row->description)
                                : SONDE_OK;
    if (row->type == MCP_WHOLE)
        return query_whole(arguments, row->name, row->low, row->high, &number, diag);
    if (row->type == MCP_FLAG)
        return query_flag(arguments, row->name, &flag, diag);
    return value.len >= row->low && value.len <= row->high
               ? SONDE_OK
               : sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: must have %llu to %llu bytes",
                            row->name, (unsigned long long)row->low, (unsigned long long)row->high);
}

sonde_err mcp_arguments_check(const struct mcp_tool *tool, const struct query *arguments,
                              struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < arguments->count && !err; i++)
        if (!mcp_argument_find(tool, arguments->pairs[i].key))
            err = refuse_unknown(tool, arguments->pairs[i].key, diag);
    for (size_t i = 0; i < tool->argument_count && !err; i++)
        err = check_value(&tool->arguments[i], arguments, diag);
    return err;
}

/* ---- Schemas ---- */

static void put_text(struct sonde_buf *out, const char *key, const char *text) {
    sonde_buf_printf(out, "\"%s\":", key);
    sonde_json_string(out, sonde_slice_of(text));
}

static void put_argument(const struct mcp_argument *row, struct sonde_buf *out) {
    static const char *const types[] = {"string", "integer", "boolean"};
    sonde_buf_printf(out, "\"%s\":{\"type\":\"%s\",", row->name, types[row->type]);
    if (row->type == MCP_WHOLE)
        sonde_buf_printf(out, "\"minimum\":%llu,\"maximum\":%llu,", (unsigned long long)row->low,
                         (unsigned long long)row->high);
    put_text(out, "description", row->description);
    sonde_buf_putc(out, '}');
}

static void put_required(const struct mcp_tool *tool, struct sonde_buf *out) {
    size_t count = 0;
    for (size_t i = 0; i < tool->argument_count; i++)
        if (tool->arguments[i].is_required)
            sonde_buf_printf(out, "%s\"%s\"", count++ ? "," : ",\"required\":[",
                             tool->arguments[i].name);
    sonde_buf_puts(out, count ? "]" : "");
}

void mcp_tool_write(const struct mcp_tool *tool, struct sonde_buf *out) {
    sonde_buf_putc(out, '{');
    put_text(out, "name", tool->name);
    sonde_buf_putc(out, ',');
    put_text(out, "title", tool->title);
    sonde_buf_putc(out, ',');
    put_text(out, "description", tool->description);
    sonde_buf_puts(out, ",\"inputSchema\":{\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; i < tool->argument_count; i++) {
        sonde_buf_puts(out, i ? "," : "");
        put_argument(&tool->arguments[i], out);
    }
    sonde_buf_putc(out, '}');
    put_required(tool, out);
    sonde_buf_printf(out,
                     ",\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":%s,"
                     "\"destructiveHint\":false,\"openWorldHint\":false}}",
                     tool->is_read_only ? "true" : "false");
}
