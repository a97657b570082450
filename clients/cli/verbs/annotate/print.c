/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/print.h"

#include "api/draw/names/readable_name.h"
#include "clients/cli/cli.h"

#include <inttypes.h>
#include <string.h>

#define TAB 8u

void print_columns_header(const struct view *view) {
    printf(view->has_base ? "%8s %8s %8s %8s" : "%8s %8s", "SELF", "TOTAL", "BASE", "CHANGE");
}

static void put_share(double share) {
    if (share > 0)
        printf("%7.2f%%", 100 * share);
    else
        printf("%8s", "");
}

void print_columns(const struct view *view, const struct view_counts *counts) {
    static const struct view_counts none[VIEW_SIDES];
    counts = counts ? counts : none;
    put_share(counts[VIEW_NOW].self);
    putchar(' ');
    put_share(counts[VIEW_NOW].total);
    if (!view->has_base)
        return;
    putchar(' ');
    put_share(counts[VIEW_BASE].total);
    if (print_has_counts(counts))
        printf(" %+7.2f%%", 100 * (counts[VIEW_NOW].total - counts[VIEW_BASE].total));
    else
        printf(" %8s", "");
}

const char *print_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Tabs are expanded, because columns precede the text. */
void print_source(const char *text) {
    char line[1001];
    size_t len = 0;
    for (; *text && len < sizeof line - TAB; text++) {
        size_t stop = *text == '\t' ? len + TAB - len % TAB : len + 1;
        while (len < stop)
            line[len++] = *text == '\t' ? ' ' : *text;
    }
    line[len] = 0;
    cli_put_text(stdout, line);
}

void print_function(FILE *out, const char *name) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, false);
    cli_put_whole_name(out, readable.data ? readable.data : name);
    sonde_buf_finish(&readable);
}

void print_target(const struct view *view, const Sonde__V1__CodeInstruction *code) {
    const char *name = view_text(view->code, code->target_name);
    if (!*name)
        return;
    fputs("  <", stdout);
    print_function(stdout, name);
    if (code->target_offset)
        printf("+0x%" PRIx64, code->target_offset);
    putchar('>');
}
