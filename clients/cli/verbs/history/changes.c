/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/history/changes.h"

#include "api/draw/names/readable_name.h"
#include "clients/cli/capture.h"
#include "clients/cli/cli.h"
#include "clients/cli/json.h"

#include <stdio.h>
#include <string.h>

/* "+12.3 %", or of a function that was not there "new". */
static void print_change(const Sonde__V1__ChangedFunction *function) {
    if (function->kind == SONDE__V1__CHANGE_KIND__CHANGE_KIND_MOVED)
        fputs("moved", stdout);
    else if (function->before <= 0)
        fputs("new", stdout);
    else
        printf("%+.1f %%", 100 * (function->factor - 1));
}

/* Names that do not fit in memory are shown as they are. */
static void print_readable(const char *name) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, true);
    cli_put_name(stdout, readable.failed ? name : sonde_buf_slice(&readable).data);
    sonde_buf_finish(&readable);
}

/* "  parse  +12.3 %  3.0 % -> 3.4 % of the service, ± 0.1" */
static void print_function(const Sonde__V1__ChangedFunction *function) {
    fputs("  ", stdout);
    print_readable(function->function);
    fputs("  ", stdout);
    print_change(function);
    printf("  (%.2f %% -> %.2f %% of the service, ± %.2f)", 100 * function->before,
           100 * function->after, 50 * (function->high - function->low));
    if (*function->moved_from) {
        fputs(", before in ", stdout);
        print_readable(function->moved_from);
    }
    putchar('\n');
    for (size_t i = 0; i < function->n_callers; i++) {
        fputs(i ? " < " : "    called by ", stdout);
        print_readable(function->callers[i]);
    }
    if (function->n_callers)
        putchar('\n');
}

static void print_value(const char *value) {
    cli_put_name(stdout, *value ? value : "(none)");
}

static void print_one(const Sonde__V1__Change *change) {
    char time[CAPTURE_TIME_BYTES];
    printf("%s  ", capture_time_text(change->until_unix_ns, time));
    cli_put_name(stdout, change->service);
    if (*change->host) {
        fputs(", only on host ", stdout);
        cli_put_name(stdout, change->host);
    }
    for (size_t i = 0; i < change->n_labels; i++) {
        const Sonde__V1__ChangedLabel *label = change->labels[i];
        fputs(", ", stdout);
        cli_put_name(stdout, label->name);
        putchar(' ');
        print_value(label->before);
        fputs(" -> ", stdout);
        print_value(label->after);
    }
    putchar('\n');
    for (size_t i = 0; i < change->n_functions; i++)
        print_function(change->functions[i]);
}

static void print_list(const Sonde__V1__ListChangesResponse *list) {
    if (list->n_changes == 0)
        puts("no changes were found in this time; sonded --watch looks for them");
    for (size_t i = 0; i < list->n_changes; i++)
        print_one(list->changes[i]);
    if (list->is_cut)
        puts("there are older ones; choose an earlier --until");
}

sonde_err history_list_changes(struct service *service, const char *name,
                               const struct history_range *range, bool as_json,
                               struct sonde_diag *diag) {
    Sonde__V1__ListChangesRequest request = SONDE__V1__LIST_CHANGES_REQUEST__INIT;
    ProtobufCMessage *answer;
    request.service = (char *)name;
    request.from_unix_ns = range->from_unix_ns;
    request.until_unix_ns = range->until_unix_ns;
    sonde_err err = service_call(service, &client_list_changes, &request.base, &answer, diag);
    if (err)
        return history_explain(err, diag);
    if (as_json)
        json_print(answer);
    else
        print_list((const void *)answer);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}
